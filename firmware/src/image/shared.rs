//! What the tasks exchange. Nothing here makes the flight task wait: queues are lock-free and drop what
//! does not fit, copies take a microsecond with interrupts off.

use core::cell::Cell;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use critical_section::Mutex;
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::channel::Channel;
use heapless::String;
use heapless::spsc::Queue;
use static_cell::ConstStaticCell;
use steady_common::commander::Command;
use steady_firmware::drivers::{Doubts, Failure};
use steady_firmware::flight::Event;
use steady_firmware::ring::LedMemory;
use steady_firmware::services::{Device, StoreDone, StoreJob};
use steady_firmware::settings::Settings;
use steady_firmware::storage::config::LogPlan;
use steady_firmware::storage::{Counters, Item, Status};
use steady_firmware::telemetry::Telemetry;

/// A value that one task writes and others copy.
pub(crate) struct Copied<T: Copy> {
    value: Mutex<Cell<Option<T>>>,
    version: AtomicU32,
}

impl<T: Copy> Copied<T> {
    const fn new() -> Self {
        Self { value: Mutex::new(Cell::new(None)), version: AtomicU32::new(0) }
    }

    pub(crate) fn set(&self, value: T) {
        critical_section::with(|cs| self.value.borrow(cs).set(Some(value)));
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn get(&self) -> Option<T> {
        critical_section::with(|cs| self.value.borrow(cs).get())
    }

    /// The value, if it has changed since the version that `seen` holds.
    pub(crate) fn if_new(&self, seen: &mut u32) -> Option<T> {
        let version = self.version.load(Ordering::Acquire);
        if version == *seen {
            return None;
        }
        *seen = version;
        self.get()
    }
}

/// Written by the radio task.
pub(crate) static SETTINGS: Copied<Settings> = Copied::new();
/// Written by the radio task, a hundred times a second.
pub(crate) static DEVICE: Copied<Device> = Copied::new();
/// Written by the flight task, every step.
pub(crate) static TELEMETRY: Copied<Telemetry> = Copied::new();
/// The LED ring's memory, written by the radio task.
pub(crate) static LEDS: Copied<LedMemory> = Copied::new();
/// Why a sensor does not work, written by the flight task.
pub(crate) static SENSOR_FAILURE: Copied<Failure> = Copied::new();
/// What the sensors' own tests find doubtful, written by the flight task.
pub(crate) static DOUBTS: Copied<Doubts> = Copied::new();
/// Written by the storage task.
pub(crate) static CARD: Copied<Status> = Copied::new();
/// Log variables the card's `config.txt` asks for, written by the storage task.
pub(crate) static PLAN: Copied<LogPlan> = Copied::new();

/// Commands on their way to the flight task.
pub(crate) static COMMANDS: ConstStaticCell<Queue<Command, 32>> = ConstStaticCell::new(Queue::new());
/// Records on their way to the card: more than a quarter of a second, as cards stall that long.
pub(crate) static RECORDS: ConstStaticCell<Queue<Item, 160>> = ConstStaticCell::new(Queue::new());
/// Records made and lost.
pub(crate) static COUNTERS: Counters = Counters::new();
/// Events on their way to the EEPROM and the console.
pub(crate) static EVENTS: ConstStaticCell<Queue<Event, 8>> = ConstStaticCell::new(Queue::new());

/// A queue between tasks that may not wait for each other.
type Post<T, const N: usize> = Channel<CriticalSectionRawMutex, T, N>;
/// Requests to the EEPROM and their results.
pub(crate) static STORE_JOBS: Post<StoreJob, 4> = Channel::new();
pub(crate) static STORE_DONE: Post<StoreDone, 4> = Channel::new();

/// A line for the client.
pub(crate) type Line = String<128>;
/// Lines on their way to the radio.
pub(crate) static LINES: Post<Line, 12> = Channel::new();

/// Prints a line to the client and the debugger. Too long a line is cut; with a full queue it is dropped.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    let mut line = Line::new();
    // Cut at the line's end.
    let _ = fmt::write(&mut line, text);
    defmt::info!("{}", line.as_str());
    if line.push('\n').is_err() {
        line.pop();
        let _ = line.push('\n');
    }
    let _ = LINES.try_send(line);
}

/// The sensors have passed their tests.
pub(crate) static SENSORS_OK: AtomicBool = AtomicBool::new(false);
/// A log is wanted: the flight task makes records.
pub(crate) static LOGGING: AtomicBool = AtomicBool::new(false);
/// The card is there and has room.
pub(crate) static CARD_READY: AtomicBool = AtomicBool::new(false);
/// Decks that were found.
pub(crate) static DECKS: AtomicU8 = AtomicU8::new(0);
/// In [`DECKS`]: the micro-SD deck.
pub(crate) const MICRO_SD: u8 = 1;
/// In [`DECKS`]: the LED ring.
pub(crate) const LED_RING: u8 = 2;
/// The button was pressed: close the file.
pub(crate) static SHUTDOWN: AtomicBool = AtomicBool::new(false);
/// The file is closed.
pub(crate) static CLOSED: AtomicBool = AtomicBool::new(false);
/// Battery voltage, µV.
static BATTERY_UV: AtomicU32 = AtomicU32::new(0);

/// The battery's voltage, V; 3.7 before the first report, as the official firmware assumes.
pub(crate) fn battery_v() -> f32 {
    match BATTERY_UV.load(Ordering::Relaxed) {
        0 => 3.7,
        uv => uv as f32 * 1e-6,
    }
}

/// A report came.
pub(crate) fn set_battery_v(volts: f32) {
    BATTERY_UV.store((volts * 1e6) as u32, Ordering::Relaxed);
}
