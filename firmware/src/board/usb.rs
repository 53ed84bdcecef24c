//! The USB controller (OTG_FS) and its pins, for the HAL's driver.
//!
//! That driver waits without an end for a controller that does not answer, with interrupts off. So the
//! controller is asked first, and one that is not ready is left alone: the drone flies without.

use static_cell::{ConstStaticCell, StaticCell};
use steady_firmware::usb::Usb;
use stm32f4xx_hal::gpio::{PA11, PA12};
use stm32f4xx_hal::otg_fs::{USB, UsbBus, UsbBusType};
use stm32f4xx_hal::pac::{OTG_FS_DEVICE, OTG_FS_GLOBAL, OTG_FS_PWRCLK};
use stm32f4xx_hal::rcc::{Enable, Rcc, Reset};
use usb_device::bus::UsbBusAllocator;

use super::memory::Serial;

/// The drone's end of the cable.
pub(crate) type Cable = &'static mut Usb<'static, UsbBusType>;

/// Rounds to wait for the controller; a reset takes a few of its 48 MHz clocks.
const PATIENCE: u32 = 10_000;
/// Received transfers: two endpoints of 64 bytes.
static RECEIVED: ConstStaticCell<[u32; 32]> = ConstStaticCell::new([0; 32]);
static BUS: StaticCell<UsbBusAllocator<UsbBusType>> = StaticCell::new();
static SERIAL: StaticCell<Serial> = StaticCell::new();
static CABLE: StaticCell<Usb<'static, UsbBusType>> = StaticCell::new();

/// The controller and its pins.
pub(crate) struct Port {
    pub(crate) blocks: (OTG_FS_GLOBAL, OTG_FS_DEVICE, OTG_FS_PWRCLK),
    pub(crate) pins: (PA11, PA12),
}

/// Connects to the bus; nothing when the controller does not work. Call it once. A function of its own, so that
/// what it needs of the stack is free again when the caller goes on.
#[inline(never)]
pub(crate) fn init(port: Port, rcc: &mut Rcc) -> Option<Cable> {
    OTG_FS_GLOBAL::enable(rcc);
    OTG_FS_GLOBAL::reset(rcc);
    if !is_ready(&port.blocks.0) {
        return None;
    }
    let usb = USB::new(port.blocks, port.pins, &rcc.clocks);
    let bus = BUS.init(UsbBus::new(usb, RECEIVED.take()));
    Some(CABLE.init(Usb::new(bus, SERIAL.init(super::memory::serial()))?))
}

/// True when the controller carries out a reset, which needs its 48 MHz.
fn is_ready(controller: &OTG_FS_GLOBAL) -> bool {
    let control = controller.grstctl();
    let waits_for = |done: &dyn Fn() -> bool| (0..PATIENCE).any(|_| done());
    if !waits_for(&|| control.read().ahbidl().bit_is_set()) {
        return false;
    }
    control.modify(|_, w| w.csrst().set_bit());
    waits_for(&|| control.read().csrst().bit_is_clear() && control.read().ahbidl().bit_is_set())
}
