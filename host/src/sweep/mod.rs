//! Sweeps: one `steady` command over a grid of seeds, worlds and settings.
//!
//! [`plan`] makes the cells out of a file, [`cell`] runs one of them in its own folder, [`slurm`] runs many on
//! a cluster, and [`gather`] makes the table. The state of a sweep is in the cells' folders alone: whatever ends
//! it, the same command continues it.

pub(crate) mod cell;
pub(crate) mod gather;
pub(crate) mod plan;
pub(crate) mod slurm;
