//! What the image and the test that runs it agree on: which topic to run, and where its trace is.
//!
//! The test writes a [`Topic`] into the word at [`TOPIC`] and clears the two that follow; the image appends words
//! to the trace and sets [`DONE`] when it has come to its end. All of this is in the core-coupled memory, which no
//! start-up code clears and which survives a reset.
#![no_std]

/// Which program runs.
pub const TOPIC: u32 = 0x1000_8000;
/// 1 when the program has come to its end.
pub const DONE: u32 = 0x1000_8004;
/// Words in the trace.
pub const COUNT: u32 = 0x1000_8008;
/// The trace.
pub const TRACE: u32 = 0x1000_8010;
/// Most words of a trace.
pub const TRACE_LEN: u32 = 1024;
/// In the trace: an exception that no program expects, with its number in the low byte.
pub const UNEXPECTED: u32 = 0xBAD0_0000;
/// In the trace: a panic, with its line in the low half.
pub const PANIC: u32 = 0xDEAD_0000;

/// The programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Topic {
    /// Two tasks on process stacks, PendSV and SVC.
    ContextSwitch = 1,
    /// BASEPRI, PRIMASK, FAULTMASK, PRIGROUP.
    Priorities,
    /// Exception frames, nesting and tail chaining.
    TailChaining,
    /// Floating-point registers across exceptions.
    Floats,
    /// Faults that become hard faults.
    Escalation,
    /// The low bits of stack pointers.
    StackPointer,
    /// The system timer.
    SysTick,
    /// WFI and WFE.
    Sleep,
    /// Interrupts and events of pins.
    Exti,
    /// Streams that run in circles, are stopped, and are started again.
    Dma,
    /// A stream that is started with its flags set.
    DmaStaleFlags,
    /// A slave that does not answer, and one that does.
    I2c,
    /// Full-duplex bytes, overrun, an SD card.
    Spi,
    /// The image programs and erases its own flash.
    Flash,
    /// A store into flash that is locked.
    FlashLocked,
    /// The independent watchdog.
    Watchdog,
    /// A timer's compare register fed by DMA.
    Ring,
    /// A register that is not modelled.
    Unmodelled,
}

impl Topic {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::ContextSwitch,
        Self::Priorities,
        Self::TailChaining,
        Self::Floats,
        Self::Escalation,
        Self::StackPointer,
        Self::SysTick,
        Self::Sleep,
        Self::Exti,
        Self::Dma,
        Self::DmaStaleFlags,
        Self::I2c,
        Self::Spi,
        Self::Flash,
        Self::FlashLocked,
        Self::Watchdog,
        Self::Ring,
        Self::Unmodelled,
    ];
}
