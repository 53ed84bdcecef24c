//! The evaluation: controllers × tasks × worlds × seeds, with intervals, claims and the paper's figures.
//!
//! [`suite`] says what is compared and by which protocol, [`mod@bench`] what there is to do for it and where its
//! results are kept. What learns from flights does so by the engine of [`crate::closed_loop`], [`ceiling`] searches
//! the oracle's gains. [`results`] puts the numbers together, [`claims`] and [`harm`] say what they show, [`report`]
//! and [`figures`] write it down.

pub(crate) mod bench;
pub(crate) mod ceiling;
pub(crate) mod claims;
pub(crate) mod figures;
pub(crate) mod harm;
pub(crate) mod report;
pub(crate) mod results;
pub(crate) mod suite;
