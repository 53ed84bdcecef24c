//! The controllers a drone can fly with.

/// A controller, by its value of the parameter `stabilizer.controller`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Controller {
    /// The official firmware's cascaded PID.
    Pid = 1,
    /// The official firmware's Mellinger with its own gains (`ctrlMel.*`).
    StockMellinger = 2,
    /// The differentiable Mellinger with the gain table.
    #[default]
    Differentiable = 6,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pid, Self::StockMellinger, Self::Differentiable];

    /// By the value of the parameter `stabilizer.controller`: the official numbers, 6 ("out of
    /// tree") for ours, 0 for the default.
    #[must_use]
    pub fn from_param(value: u8) -> Option<Self> {
        if value == 0 {
            return Some(Self::default());
        }
        Self::ALL.into_iter().find(|controller| controller.number() == value)
    }

    /// The value of the parameter `stabilizer.controller`.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Name in commands and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pid => "pid",
            Self::StockMellinger => "mellinger",
            Self::Differentiable => "law",
        }
    }
}
