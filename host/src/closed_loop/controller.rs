//! The controllers that are compared.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A controller of a comparison, by where its gains come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControllerKind {
    /// The Crazyflie's built-in cascaded PID.
    Pid,
    /// The firmware's built-in gains, not trained.
    Nominal,
    /// The official Mellinger controller with its own gains, as this firmware has it.
    StockMellinger,
    /// Gains trained in the simulator.
    Simulator,
    /// Gains adapted from flights with the simulator's skills alone.
    Transfer,
    /// Gains adapted from flights with discovered skills.
    Steady,
    /// Gains changed at random from flight to flight, and kept where flights were better.
    DirectSearch,
    /// Gains moved along the flights' errors by slopes that the simulator as it is has.
    Gradient,
    /// Gains adapted by a regression of the next state, without the simulator.
    Regression,
    /// Gains searched in the world itself: the upper bound.
    Oracle,
    /// Gains trained in many random simulated worlds.
    DomainRandomisation,
    /// The PID of another firmware, by its own image.
    OfficialPid,
    /// The Mellinger controller of another firmware, by its own image.
    OfficialMellinger,
}

impl ControllerKind {
    /// Name in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pid => "pid",
            Self::Nominal => "nominal",
            Self::StockMellinger => "stock-mellinger",
            Self::Simulator => "simulator",
            Self::Transfer => "transfer",
            Self::Steady => "steady",
            Self::DirectSearch => "direct-search",
            Self::Gradient => "gradient",
            Self::Regression => "regression",
            Self::Oracle => "oracle",
            Self::DomainRandomisation => "domain-randomisation",
            Self::OfficialPid => "official-pid",
            Self::OfficialMellinger => "official-mellinger",
        }
    }

    /// Name in tables and pictures.
    pub fn title(self) -> &'static str {
        match self {
            Self::Pid => "Built-in PID",
            Self::Nominal => "Built-in gains",
            Self::StockMellinger => "Stock Mellinger",
            Self::Simulator => "Simulator",
            Self::Transfer => "Skill transfer",
            Self::Steady => "STEADY",
            Self::DirectSearch => "Direct search",
            Self::Gradient => "Simulator's gradient",
            Self::Regression => "Regression",
            Self::Oracle => "Oracle",
            Self::DomainRandomisation => "Domain randomisation",
            Self::OfficialPid => "Official PID",
            Self::OfficialMellinger => "Official Mellinger",
        }
    }

    /// True when it learns from flights in the world it is judged in.
    pub fn learns_from_flights(self) -> bool {
        matches!(self, Self::Transfer | Self::Steady | Self::DirectSearch | Self::Gradient | Self::Regression)
    }

    /// True when it is another firmware's own.
    pub fn is_official(self) -> bool {
        matches!(self, Self::OfficialPid | Self::OfficialMellinger)
    }

    pub fn on_drone(self) -> steady_common::Controller {
        match self {
            Self::Pid | Self::OfficialPid => steady_common::Controller::Pid,
            Self::StockMellinger | Self::OfficialMellinger => steady_common::Controller::StockMellinger,
            _ => steady_common::Controller::Differentiable,
        }
    }
}
