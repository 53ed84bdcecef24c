//! The real-world stage (the paper's sections IV-B and IV-C, Algorithm 2): from flights to better gains.
//!
//! [`flights`] cuts log records into transitions ([`official`] those of the official firmware), [`discovery`] learns the skills that the simulator lacks,
//! [`synthesis`] finds the value of the present policy over all skills, [`dynamics`] what they say of the next
//! state, [`rollout`] what other gains would have made of the flights, [`improvement`] the best of them within
//! bounds, [`worlds`] flies the result in simulated worlds that look like the data, [`adapter`] is the
//! loop over rounds, and [`run`] the command.

pub mod adapter;
pub mod config;
pub mod discovery;
pub mod dynamics;
pub mod flights;
pub mod improvement;
pub mod official;
pub mod rollout;
pub mod run;
pub mod simulated;
pub mod synthesis;
pub mod worlds;
