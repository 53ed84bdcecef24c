//! Start-up: the order in which the drone comes to life, and the executors its tasks run in.

mod flight;
mod radio;
mod shared;
mod storage;

use core::mem::MaybeUninit;
use core::ptr::addr_of_mut;

use defmt_rtt as _;
use embassy_executor::{Executor, InterruptExecutor, SendSpawner};
use embassy_time::Delay;
use steady_common::board::Board as BoardKind;
use steady_common::config_block::{ConfigBlock, Degrees};
use steady_common::gain_table;
use steady_firmware::drivers::eeprom24::Eeprom;
use steady_firmware::drivers::nrf51::RadioSettings;
use steady_firmware::eeprom::Store;
use steady_firmware::flight::imu::Trims;
use steady_firmware::flight::{Boot, Flight};
use steady_firmware::services::{Device, Services};
use steady_firmware::settings::Settings;
use steady_firmware::storage::{Drain, Feed};
use stm32f4xx_hal::pac::interrupt;

use self::shared::say;
use crate::board::{self, Board, fault, irq, memory, uart, usb};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const COMMIT: &str = env!("STEADY_COMMIT");

static FLIGHT: InterruptExecutor = InterruptExecutor::new();
static RADIO: InterruptExecutor = InterruptExecutor::new();

#[cortex_m_rt::entry]
fn start() -> ! {
    let board = board::start();
    let (flight, radio) = (FLIGHT.start(irq::FLIGHT), RADIO.start(irq::RADIO));
    let mut executor = Executor::new();
    // SAFETY: `run` never returns, so this stack frame lives as long as the program.
    let executor: &'static mut Executor = unsafe { core::mem::transmute(&mut executor) };
    executor.run(|spawner| {
        if let Ok(task) = boot(flight, radio, board) {
            spawner.spawn(task);
        }
    })
}

/// The flight's state: large, and never touched by a DMA.
#[unsafe(link_section = ".ccm")]
static mut FLIGHT_STATE: MaybeUninit<Flight> = MaybeUninit::uninit();
/// The radio services' state, likewise.
#[unsafe(link_section = ".ccm")]
static mut SERVICES: MaybeUninit<Services> = MaybeUninit::uninit();

/// Looks at the stored configuration, starts the other tasks, and becomes the storage task.
#[embassy_executor::task]
async fn boot(flight: SendSpawner, radio: SendSpawner, board: Board) {
    let Board { reason, motors, watchdog, sensors, eeprom, radio: line, usb, mut decks } = board;
    say(format_args!("Steady {VERSION} ({COMMIT}), start by {reason}"));
    if let Some(record) = fault::take_record() {
        say(format_args!("last run: {record}"));
    }
    say_platform();

    let mut store = Store::new(Eeprom::new(eeprom.start(), Delay));
    let config = store.radio_config().await;
    let radio_settings =
        RadioSettings { channel: config.channel, data_rate: config.speed, address: config.address };
    let mut settings = Settings::new();
    match store.load_params(&mut settings).await {
        Ok(0) => {}
        Ok(count) => say(format_args!("{count} parameters from the EEPROM")),
        Err(_) => say(format_args!("the EEPROM does not answer: defaults")),
    }
    let mut boot = tables(store.proven_table().await);
    boot.board = BoardKind::from_otp(memory::otp());
    boot.trims = Trims { roll_deg: config.roll_trim_deg, pitch_deg: config.pitch_trim_deg };
    if boot.trims != Trims::default() {
        let (roll, pitch) = (Degrees(boot.trims.roll_deg), Degrees(boot.trims.pitch_deg));
        say(format_args!("trims: roll {roll} degrees, pitch {pitch} degrees"));
    }

    let (to_flight, commands) = shared::COMMANDS.take().split();
    let (records, records_out) = shared::RECORDS.take().split();
    let (events, events_out) = shared::EVENTS.take().split();
    let device = device(&radio_settings, boot.board);
    let (state, services) = states(boot, &settings, &config);
    let parts = flight::Parts {
        bus: sensors.start(),
        motors,
        watchdog,
        flight: state,
        commands,
        records: Feed::new(records, &shared::COUNTERS),
        events,
        settings,
        device,
        logged_gains: None,
    };
    if let Ok(task) = flight::run(parts) {
        flight.spawn(task);
    }
    let Some((receiver, sender)) = uart::init(line, &mut decks.rcc) else {
        unreachable!("84 MHz make 1 Mbaud")
    };
    let usb = usb::init(usb, &mut decks.rcc);
    if usb.is_none() {
        say(format_args!("the USB controller does not answer: radio only"));
    }
    let parts = radio::Parts {
        receiver,
        sender,
        usb,
        services,
        commands: to_flight,
        settings,
        radio: radio_settings,
        device,
    };
    if let Ok(task) = radio::run(parts) {
        radio.spawn(task);
    }
    storage::run(Drain::new(records_out, &shared::COUNTERS), events_out, store, settings, decks).await;
}

/// Puts the large states in their places; call it once. A function of its own, so that what it needs of the
/// stack is free again when the task goes on.
#[inline(never)]
fn states(
    boot: Boot,
    settings: &Settings,
    config: &ConfigBlock,
) -> (&'static mut Flight, &'static mut Services) {
    // SAFETY: called once, by the task that runs once, and nobody else names the variables.
    let (flight, services) = unsafe {
        (
            (*addr_of_mut!(FLIGHT_STATE)).write(Flight::new(boot, settings)),
            (*addr_of_mut!(SERVICES)).write(Services::new()),
        )
    };
    services.set_config(config);
    (flight, services)
}

/// Says which board this is.
fn say_platform() {
    let (text, board) = (BoardKind::otp_text(memory::otp()), BoardKind::from_otp(memory::otp()));
    let text = if text.is_empty() { "blank" } else { text };
    say(format_args!("board {text}, serial {}", memory::serial()));
    if !board.is_supported() {
        let name = board.device_name();
        say(format_args!("this is a {name}: Steady flies the Crazyflie 2.1 and 2.1+ only, and does not arm"));
    }
}

/// The tables to fly with: the newest, and the last one that has proven itself.
fn tables(proven: u32) -> Boot {
    let found = gain_table::scan(&mut memory::Tables).unwrap_or_else(|never| match never {});
    let find =
        |sequence| gain_table::find(&mut memory::Tables, sequence).unwrap_or_else(|never| match never {});
    let mut boot = Boot::default();
    if let Some(table) = find(proven) {
        boot.proven = table;
    }
    if let Some((_, table)) = found.newest {
        (boot.active, boot.active_proven) = (table, table.sequence == proven);
    }
    if found.damaged > 0 {
        say(format_args!("gain tables: {} damaged pages skipped", found.damaged));
    }
    match boot.active.sequence {
        0 => say(format_args!("gains: built in")),
        sequence => say(format_args!("gains: table {sequence}, proven: {}", boot.active_proven)),
    }
    boot
}

/// What is known of the drone at its start.
fn device(radio: &RadioSettings, board: BoardKind) -> Device {
    let (hash, modified) = match COMMIT.strip_suffix('+') {
        Some(hash) => (hash, true),
        None => (COMMIT, false),
    };
    Device {
        revision: hash.get(..8).and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or(0),
        modified,
        board,
        version: VERSION,
        address: radio.address as u8,
        ..Device::default()
    }
}

#[interrupt]
fn UART4() {
    // SAFETY: this is the handler of the interrupt the executor was started with.
    unsafe { FLIGHT.on_interrupt() }
}

#[interrupt]
fn UART5() {
    // SAFETY: this is the handler of the interrupt the executor was started with.
    unsafe { RADIO.on_interrupt() }
}
