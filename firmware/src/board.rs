//! The board: the HAL's drivers where they do the job, own ones where they cannot (each says why), and the
//! interrupts. Everything that decides something is in the library, where it is tested on the PC.

pub(crate) mod card;
pub(crate) mod clock;
pub(crate) mod dma;
pub(crate) mod exti;
pub(crate) mod fault;
pub(crate) mod i2c;
pub(crate) mod irq;
pub(crate) mod led;
pub(crate) mod memory;
pub(crate) mod motors;
pub(crate) mod reg;
pub(crate) mod reset;
pub(crate) mod ring;
pub(crate) mod spi;
pub(crate) mod stack;
pub(crate) mod time;
pub(crate) mod uart;
pub(crate) mod usb;
pub(crate) mod watchdog;

use steady_firmware::fault::ResetReason;
use stm32f4xx_hal::dma::StreamsTuple;
use stm32f4xx_hal::pac;
use stm32f4xx_hal::prelude::*;
use stm32f4xx_hal::rcc::Rcc;

use self::led::Leds;
use self::motors::Motors;
use self::watchdog::Watchdog;

/// What the tasks get of the board.
pub(crate) struct Board {
    pub(crate) reason: ResetReason,
    pub(crate) motors: Motors,
    pub(crate) watchdog: Watchdog,
    pub(crate) sensors: i2c::SensorBus,
    pub(crate) eeprom: i2c::EepromBus,
    pub(crate) radio: uart::Port,
    pub(crate) usb: usb::Port,
    pub(crate) decks: Decks,
}

/// What depends on the decks that are mounted.
pub(crate) struct Decks {
    pub(crate) leds: Leds,
    pub(crate) card: Option<spi::Port>,
    pub(crate) ring: Option<ring::Port>,
    pub(crate) rcc: Rcc,
}

/// Brings the board up: motors off before everything else, then clocks, and the lines that interrupt.
pub(crate) fn start() -> Board {
    let Some(p) = pac::Peripherals::take() else { unreachable!("the board starts once") };
    let Some(mut core) = cortex_m::Peripherals::take() else { unreachable!("the board starts once") };
    let mut rcc = p.RCC.constrain();
    let (a, b) = (p.GPIOA.split(&mut rcc), p.GPIOB.split(&mut rcc));
    let (c, d) = (p.GPIOC.split(&mut rcc), p.GPIOD.split(&mut rcc));
    let motor_pins = motors::Pins::low(a.pa1, b.pb11, a.pa15, b.pb9);
    stack::paint();
    let mut rcc = clock::start(rcc);
    let motors = Motors::start(p.TIM2, p.TIM4, motor_pins, &mut rcc);
    time::init(p.TIM5, &mut rcc);
    let leds = Leds::new(d.pd2, c.pc1, c.pc0, c.pc2, c.pc3);
    let reason = reset::reason(&rcc);
    // Both controllers get their clocks; the streams are shared with the interrupts, see `dma`.
    StreamsTuple::new(p.DMA1, &mut rcc);
    StreamsTuple::new(p.DMA2, &mut rcc);
    exti::init(c.pc14, a.pa4, p.SYSCFG.constrain(&mut rcc), p.EXTI);
    irq::init(&mut core.NVIC);
    Board {
        reason,
        motors,
        watchdog: Watchdog::new(p.IWDG, p.DBGMCU),
        sensors: i2c::sensors(p.I2C3, a.pa8, c.pc9, &mut rcc),
        eeprom: i2c::eeprom(p.I2C1, b.pb6, b.pb7, &mut rcc),
        radio: uart::Port::new(p.USART6, c.pc6, c.pc7),
        usb: usb::Port {
            blocks: (p.OTG_FS_GLOBAL, p.OTG_FS_DEVICE, p.OTG_FS_PWRCLK),
            pins: (a.pa11, a.pa12),
        },
        decks: Decks {
            leds,
            card: Some(spi::Port { spi: p.SPI1, pins: (a.pa5, a.pa6, a.pa7), select: c.pc12 }),
            ring: Some(ring::Port { timer: p.TIM3, data: b.pb5, headlights: b.pb4 }),
            rcc,
        },
    }
}
