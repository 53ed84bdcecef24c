//! The storage task: the card, the EEPROM and the LEDs. The only one that may wait for anything.

use core::mem::MaybeUninit;
use core::ptr::addr_of_mut;
use core::sync::atomic::Ordering;

use embassy_time::{Duration, Timer};
use heapless::spsc::Consumer;
use steady_firmware::eeprom::{Eeprom, Store};
use steady_firmware::flight::Event;
use steady_firmware::leds;
use steady_firmware::ring::Lights;
use steady_firmware::settings::Settings;
use steady_firmware::storage::{Drain, FatCard, Logger, State, Status};

use super::shared::{
    CARD, CARD_READY, CLOSED, DECKS, DEVICE, DOUBTS, LED_RING, LEDS, LOGGING, MICRO_SD, PLAN, SENSOR_FAILURE,
    SETTINGS, SHUTDOWN, STORE_DONE, STORE_JOBS, TELEMETRY, say,
};
use crate::board::card::Card;
use crate::board::led::Leds;
use crate::board::ring::Ring;
use crate::board::{Decks, stack, time};

/// How often the card is looked after.
const TICK: Duration = Duration::from_millis(2);
/// Time between two pictures of the LED ring, ms.
const RING_MS: u32 = 50;
/// In the supervisor's information: armed.
const ARMED: u16 = 1 << 1;

type CardLogger = Logger<FatCard<Card>>;

/// The log writer with its buffers: large, and copied to the DMA's own buffer by the bus.
#[unsafe(link_section = ".ccm")]
static mut LOGGER: MaybeUninit<CardLogger> = MaybeUninit::uninit();

/// Never returns; call it once.
pub(crate) async fn run(
    mut drain: Drain<'static>,
    mut events: Consumer<'static, Event>,
    mut store: Store<impl Eeprom>,
    settings: Settings,
    mut decks: Decks,
) {
    let mut logger: Option<&'static mut CardLogger> = None;
    let (mut settings, mut seen) = (settings, 0);
    let (mut ring, mut lights, mut ring_ms): (Option<Ring>, _, u32) = (None, Lights::default(), 0);
    let mut told = Told { failure: 0, doubts: 0, card: State::NoCard };
    loop {
        let now_ms = (time::now_us() / 1000) as u32;
        settings = SETTINGS.if_new(&mut seen).unwrap_or(settings);
        if DECKS.load(Ordering::Relaxed) & MICRO_SD != 0
            && let Some(port) = decks.card.take()
        {
            say(format_args!("micro-SD deck found"));
            let card = FatCard::new(Card::new(port, &mut decks.rcc));
            // SAFETY: once in this function, which is called once; nobody else names the variable.
            logger = Some(unsafe { (*addr_of_mut!(LOGGER)).write(Logger::new(card)) });
        }
        if let Some(logger) = &mut logger {
            let autostart = logger.config().autostart;
            let wanted = wanted(&settings, autostart);
            LOGGING.store(wanted, Ordering::Relaxed);
            logger.poll(now_ms, wanted, &mut drain);
            if PLAN.get() != Some(logger.config().plan) {
                PLAN.set(logger.config().plan);
            }
            if told.card(&logger.status()) {
                tell_config(logger);
            }
        }
        let status = logger.as_ref().map_or_else(Status::default, |logger| logger.status());
        CARD.set(status);
        CARD_READY.store(status.can_log, Ordering::Relaxed);
        CLOSED.store(SHUTDOWN.load(Ordering::Acquire) && status.state != State::Logging, Ordering::Release);
        while let Some(event) = events.dequeue() {
            tell(event);
            if let Event::TableProven { sequence } = event
                && store.keep_proven_table(sequence).await.is_err()
            {
                say(format_args!("the EEPROM does not keep that table {sequence} is proven"));
            }
        }
        while let Ok(job) = STORE_JOBS.try_receive() {
            // The client asks again when its answer finds no room.
            let _ = STORE_DONE.try_send(store.run(job).await);
        }
        told.failure();
        show(&mut decks.leds, now_ms, status.state);
        if DECKS.load(Ordering::Relaxed) & LED_RING != 0
            && let Some(port) = decks.ring.take()
        {
            say(format_args!("LED ring found"));
            ring = Some(Ring::start(port, &mut decks.rcc));
        }
        if let Some(ring) = &mut ring
            && now_ms.wrapping_sub(ring_ms) >= RING_MS
        {
            ring_ms = now_ms;
            let (telemetry, memory) = (TELEMETRY.get().unwrap_or_default(), LEDS.get().unwrap_or_default());
            ring.show(&lights.picture(now_ms, &settings.ring, &memory, &telemetry, status.state));
            ring.set_headlights(settings.headlights);
        }
        Timer::after(TICK).await;
    }
}

/// Whether a log should be written now.
fn wanted(settings: &Settings, autostart: bool) -> bool {
    let armed = TELEMETRY.get().is_some_and(|telemetry| telemetry.supervisor_info & ARMED != 0);
    let wanted = settings.logging || autostart || (settings.logging_on_arm && armed);
    wanted && !SHUTDOWN.load(Ordering::Acquire)
}

fn tell(event: Event) {
    match event {
        Event::TableProven { sequence } => say(format_args!("gain table {sequence} has proven itself")),
        Event::GuardTripped { sequence, try_out, code } => {
            let what = if try_out { "try-out gains over table" } else { "gain table" };
            say(format_args!("guard: {what} {sequence} taken out of flight, cause {code}"));
        }
    }
}

/// What was already reported to the client.
struct Told {
    failure: u32,
    doubts: u32,
    card: State,
}

impl Told {
    fn failure(&mut self) {
        if let Some(failure) = SENSOR_FAILURE.if_new(&mut self.failure) {
            say(format_args!("{failure}"));
        }
        if let Some(doubts) = DOUBTS.if_new(&mut self.doubts) {
            doubts.lines().for_each(|line| say(format_args!("{line}")));
        }
    }

    /// True when a card was found.
    fn card(&mut self, status: &Status) -> bool {
        if status.state == self.card {
            return false;
        }
        let found = self.card == State::NoCard && status.state == State::Ready;
        self.card = status.state;
        match (status.state, status.error) {
            (State::Logging, _) => say(format_args!("card: log {:02} begins", status.file_number)),
            (State::Ready, _) => {
                say(format_args!("card: ready; {} bytes of stack never used", stack::never_used()));
            }
            (_, Some(error)) => say(format_args!("card: {}", error.text())),
            (_, None) => {}
        }
        found
    }
}

/// What is wrong with the card's `config.txt`.
fn tell_config(logger: &CardLogger) {
    if let Some(error) = logger.config_error() {
        say(format_args!("card: config.txt is not used: {}", error.text()));
    }
    match logger.config().skipped {
        0 => {}
        lines => say(format_args!("card: {lines} lines of config.txt are not known and are skipped")),
    }
}

fn show(lights: &mut Leds, now_ms: u32, card: State) {
    let telemetry = TELEMETRY.get().unwrap_or_default();
    let connected = DEVICE.get().is_some_and(|device| device.connected);
    lights.show(&leds::show(now_ms, &telemetry, card, connected));
}
