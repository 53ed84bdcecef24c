//! The comparison: controllers × tasks × worlds × seeds, with intervals, claims and the paper's pictures.
//!
//! [`suite`] says what is compared, [`mod@bench`] what there is to do for it and where its results are kept,
//! [`queue`] does it on some threads; [`campaign`] learns from flights as a drone would, [`ceiling`] searches
//! the oracle's gains, [`judge`] flies for the record. [`results`] puts the numbers together, [`claims`] and
//! [`harm`] say what they show, [`report`] and [`figures`] write it down, and [`run`] is the command.

pub mod bench;
pub mod campaign;
pub mod ceiling;
pub mod claims;
pub mod figures;
pub mod harm;
pub mod judge;
pub mod queue;
pub mod report;
pub mod results;
pub mod run;
pub mod suite;
