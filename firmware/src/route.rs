//! Which link a packet comes or goes by.

/// A link to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// Through the radio processor.
    #[default]
    Radio,
    /// Through the cable.
    Usb,
}
