//! Panic, hard fault and a flight loop that stands still: motors off first, then a record for the next start, then a reset, when the radio
//! processor is quiet.

use core::mem::MaybeUninit;
use core::panic::PanicInfo;
use core::ptr::addr_of_mut;

use cortex_m::peripheral::SCB;
use cortex_m_rt::exception;
use steady_firmware::fault::{Kind, Record, Registers};

use super::{motors, time, uart};

/// In core-coupled memory, which the bootloader does not use: it survives the reset.
#[unsafe(link_section = ".ccm_noinit")]
static mut RECORD: MaybeUninit<Record> = MaybeUninit::uninit();

/// Takes the record the run before this one left, if it did.
pub(crate) fn take_record() -> Option<Record> {
    // SAFETY: called once, and whoever else writes it resets the chip at once. Every field is an
    // integer, so that whatever the memory holds is a value; the volatile read keeps the compiler
    // from assuming anything about it.
    unsafe {
        let place = addr_of_mut!(RECORD).cast::<Record>();
        let mut record = place.read_volatile();
        let found = record.take();
        place.write_volatile(record);
        found
    }
}

fn die(kind: Kind, registers: Registers, text: core::fmt::Arguments<'_>) -> ! {
    let record = Record::new(kind, time::now_us_low() / 1000, registers, text);
    // SAFETY: interrupts are off and nothing else runs any more.
    unsafe { addr_of_mut!(RECORD).cast::<Record>().write_volatile(record) };
    uart::quiet_radio();
    SCB::sys_reset()
}

#[panic_handler]
fn on_panic(info: &PanicInfo<'_>) -> ! {
    cortex_m::interrupt::disable();
    motors::stop_now();
    match info.location() {
        Some(at) => die(
            Kind::Panic,
            Registers::default(),
            format_args!("{}:{}: {}", at.file(), at.line(), info.message()),
        ),
        None => die(Kind::Panic, Registers::default(), format_args!("{}", info.message())),
    }
}

/// Fault registers: configurable and hard fault status, failing address.
fn fault_registers(pc: u32, lr: u32) -> Registers {
    // SAFETY: reading the fault status has no effect.
    let scb = unsafe { &*SCB::PTR };
    Registers { pc, lr, cfsr: scb.cfsr.read(), hfsr: scb.hfsr.read(), address: scb.bfar.read() }
}

/// A fault may be the stack's overflow: then there is no room for a function's frame, and the handler
/// starts at the stack's top again. Nothing returns from it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn HardFault() -> ! {
    core::arch::naked_asm!(
        "mov r0, sp",
        "movw r1, #:lower16:_stack_end",
        "movt r1, #:upper16:_stack_end",
        "add r1, r1, #{room}",
        "cmp r0, r1",
        "bhs 1f",
        "movw r2, #:lower16:_stack_start",
        "movt r2, #:upper16:_stack_start",
        "mov sp, r2",
        "1: b {handler}",
        room = const HANDLER_ROOM,
        handler = sym on_hard_fault,
    )
}

/// Stack the handler needs, bytes, with a margin.
const HANDLER_ROOM: u32 = 1024;
/// Where the stack is.
const STACK: core::ops::Range<u32> = 0x1000_0000..0x1001_0000;

/// What the processor has pushed when it took the fault.
#[repr(C)]
struct Frame {
    _r: [u32; 5],
    lr: u32,
    pc: u32,
    _xpsr: u32,
}

extern "C" fn on_hard_fault(frame: *const Frame) -> ! {
    cortex_m::interrupt::disable();
    motors::stop_now();
    // After a stack overflow the frame may lie outside the memory, and reading it would fault again.
    let end = (frame as u32).saturating_add(size_of::<Frame>() as u32);
    let readable = frame.is_aligned() && STACK.contains(&(frame as u32)) && STACK.contains(&end);
    // SAFETY: inside the stack's memory, aligned, and made of integers.
    let frame = readable.then(|| unsafe { frame.read_volatile() });
    let registers = fault_registers(frame.as_ref().map_or(0, |f| f.pc), frame.as_ref().map_or(0, |f| f.lr));
    let text = if readable { "" } else { "stack overflow" };
    die(Kind::HardFault, registers, format_args!("{text}"))
}

/// The flight loop has stood still for too long: the watchdog would bite soon, at any moment of the radio
/// processor's traffic.
#[cold]
#[inline(never)]
pub(crate) fn flight_is_late() -> ! {
    cortex_m::interrupt::disable();
    motors::stop_now();
    die(Kind::Late, Registers::default(), format_args!("it missed every deadline"))
}

#[exception]
unsafe fn DefaultHandler(irqn: i16) -> ! {
    cortex_m::interrupt::disable();
    motors::stop_now();
    die(Kind::Unhandled, Registers::default(), format_args!("number {irqn}"))
}
