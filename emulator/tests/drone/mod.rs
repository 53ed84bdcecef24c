//! Two drones to talk to in virtual time, each as a [`Link`]: the real firmware image, and a quick one
//! for thousands of runs, which is the firmware's own radio services on the PC behind the same model of
//! radio processor and bootloader.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use steady_common::State;
use steady_common::commander::Command;
use steady_common::crtp::{self, Packet};
use steady_common::gain_table::{self, FLASH_ADDRESS, GainTable, PAGE_SIZE, Page, PageSource};
use steady_common::syslink::{Frame, Kind, Parser};
use steady_firmware::drivers::nrf51::{self, RadioSettings, Received};
use steady_firmware::flight::Boot;
use steady_firmware::flight::tables::Tables;
use steady_firmware::route::Route;
use steady_firmware::services::{Context, Device, Services, StoreDone, StoreRequest};
use steady_firmware::settings::Settings;
use steady_firmware::telemetry::Telemetry;
use steady_radio::Result;
use steady_radio::client::Client;
use steady_radio::link::{self, Link, Peer, Traffic, Transmitter};
use steady_radio::toc::Cache;
use steady_sim::{Rng, World};
use virtual_crazyflie::Image;
use virtual_crazyflie::board::nrf::{Ack, Nrf};
use virtual_crazyflie::board::{Board, Stop, TICKS_PER_MS};
use virtual_crazyflie::chip::flash;
use virtual_crazyflie::cortex::map;
use virtual_crazyflie::cortex::unicorn::Memory;
use virtual_crazyflie::ground::{Dongle, Ground};
use virtual_crazyflie::network::{Network, Trouble};
use virtual_crazyflie::session::{Session, Setup};

/// The firmware image.
#[track_caller]
pub fn image() -> Option<Image> {
    steady_test_support::image().map(|path| Image::load(&path).unwrap())
}

/// The air and the network between the PC and the drone.
pub struct Air {
    uplink: Network,
    downlink: Network,
    dongle: Dongle,
    inbox: VecDeque<Packet>,
    /// The network's dongle sends nothing: an [`Antenna`] does.
    is_silent: bool,
    sent: u64,
    received: u64,
}

impl Air {
    fn new(trouble: Trouble, seed: u64) -> Self {
        Self {
            uplink: Network::new(trouble, seed, 0),
            downlink: Network::new(trouble, seed, 1),
            dongle: Dongle::eager(&World::named("nominal").unwrap().radio, seed),
            inbox: VecDeque::new(),
            is_silent: false,
            sent: 0,
            received: 0,
        }
    }

    fn put(&mut self, now_us: u64, packet: &Packet) {
        self.sent += 1;
        self.uplink.put(now_us, *packet);
    }

    fn take(&mut self, now_us: u64) -> Option<Packet> {
        while let Some(packet) = self.downlink.take(now_us) {
            self.inbox.push_back(packet);
        }
        let packet = self.inbox.pop_front()?;
        self.received += 1;
        Some(packet)
    }

    fn traffic(&self) -> Traffic {
        Traffic { sent: self.sent, received: self.received, ..Traffic::default() }
    }
}

struct SharedAir(Rc<RefCell<Air>>);

impl Ground for SharedAir {
    fn millisecond(&mut self, now_us: u64, _: &State, board: &mut Board, memory: &mut Memory<'_>) {
        let air = &mut *self.0.borrow_mut();
        if air.is_silent {
            return;
        }
        while let Some(packet) = air.uplink.take(now_us) {
            air.dongle.send(now_us, packet);
        }
        if let Some(answer) = air.dongle.poll(now_us, board, memory) {
            air.downlink.put(now_us, answer);
        }
    }
}

/// The real image; time passes while somebody waits.
pub struct RealDrone {
    pub session: Session,
    air: Rc<RefCell<Air>>,
}

/// A drone that a test still holds while a client talks to it.
pub struct Shared<D>(pub Rc<RefCell<D>>);

impl<D> Clone for Shared<D> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl RealDrone {
    /// Switched on, with tables in its flash.
    pub fn new(image: Image, tables: &[GainTable], trouble: Trouble, seed: u64) -> Shared<Self> {
        Self::with(image, tables, trouble, seed, |_| {})
    }

    /// The same with another set-up.
    pub fn with(
        image: Image,
        tables: &[GainTable],
        trouble: Trouble,
        seed: u64,
        change: impl FnOnce(&mut Setup),
    ) -> Shared<Self> {
        let air = Rc::new(RefCell::new(Air::new(trouble, seed)));
        let pages =
            (0..).zip(tables).map(|(n, t)| (FLASH_ADDRESS + n * PAGE_SIZE as u32, t.encode().to_vec()));
        let mut setup = Setup {
            image,
            world: World::named("nominal").unwrap(),
            seed,
            pages: pages.collect(),
            flash: None,
            card: None,
            eeprom: Vec::new(),
            faults: Vec::new(),
            otp: "0;CF21".to_owned(),
            profile: false,
            strict: None,
        };
        change(&mut setup);
        let session = Session::new(setup, Box::new(SharedAir(Rc::clone(&air)))).unwrap();
        Shared(Rc::new(RefCell::new(Self { session, air })))
    }

    /// A drone whose ground is another one: nothing comes by this link.
    pub fn on(session: Session) -> Shared<Self> {
        let air = Rc::new(RefCell::new(Air::new(Trouble::default(), 1)));
        Shared(Rc::new(RefCell::new(Self { session, air })))
    }

    /// Puts it into its bootloader, as with the button.
    pub fn cold_boot(&mut self) {
        let (board, memory) = self.session.machine.parts();
        board.nrf.cold_boot(memory.flash, board.now);
    }

    /// The power goes off and comes back.
    pub fn power_cut(&mut self) {
        self.session.machine.power_cycle();
    }

    fn now_us(&self) -> u64 {
        self.session.machine.look().now / (TICKS_PER_MS / 1000)
    }

    fn millisecond(&mut self) {
        let until = self.session.machine.look().now + TICKS_PER_MS;
        let stop = self.session.machine.run_until(until);
        assert_eq!(
            stop,
            None,
            "{}",
            self.session.machine.explain(&stop.clone().unwrap(), self.session.image())
        );
    }
}

impl Link for Shared<RealDrone> {
    fn send(&mut self, packet: &Packet) -> Result<()> {
        let drone = self.0.borrow();
        let now = drone.now_us();
        drone.air.borrow_mut().put(now, packet);
        Ok(())
    }
    fn receive(&mut self, wait: Duration) -> Result<Option<Packet>> {
        let mut drone = self.0.borrow_mut();
        let until = drone.now_us() + wait.as_micros() as u64;
        loop {
            let now = drone.now_us();
            let packet = drone.air.borrow_mut().take(now);
            if packet.is_some() || now >= until {
                return Ok(packet);
            }
            drone.millisecond();
        }
    }
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.borrow().now_us())
    }
    fn traffic(&self) -> Traffic {
        self.0.borrow().air.borrow().traffic()
    }
    fn switch_to(&mut self, _: Peer) -> Result<()> {
        Ok(())
    }
}

/// From a reset until the quick drone's firmware runs, ms. The real image answers after about 50 ms.
const BOOT_MS: u64 = 20;

/// The firmware's radio side on the PC.
struct Firmware {
    link: nrf51::Link,
    parser: Parser,
    services: Services,
    settings: Settings,
    telemetry: Telemetry,
    device: Device,
    tables: Tables,
    outbox: VecDeque<Packet>,
}

struct Area<'f>(&'f [u8]);

impl PageSource for Area<'_> {
    type Error = std::convert::Infallible;
    fn read(&mut self, index: usize, page: &mut Page) -> std::result::Result<(), Self::Error> {
        page.copy_from_slice(&self.0[index * PAGE_SIZE..(index + 1) * PAGE_SIZE]);
        Ok(())
    }
}

/// The table area of a flash.
pub fn area(flash: &[u8]) -> &[u8] {
    &flash[(FLASH_ADDRESS - map::FLASH) as usize..]
}

/// What a firmware finds in a flash.
pub fn scan(flash: &[u8]) -> gain_table::Scan {
    let Ok(scan) = gain_table::scan(&mut Area(area(flash)));
    scan
}

impl Firmware {
    fn start(flash: &[u8]) -> Self {
        let newest = scan(flash).newest.map(|(_, table)| table);
        let tables = Tables::new(Boot::new(newest, None));
        let mut telemetry = Telemetry { battery_v: 4.0, table: tables.status(), ..Telemetry::default() };
        telemetry.sequence = 1;
        Self {
            link: nrf51::Link::new(RadioSettings::default()),
            parser: Parser::new(),
            services: Services::new(),
            settings: Settings::new(),
            telemetry,
            device: Device { version: "steady, on the PC", address: 0xE7, ..Device::default() },
            tables,
            outbox: VecDeque::new(),
        }
    }

    fn millisecond(&mut self, now_ms: u32, nrf: &mut Nrf, flash: &[u8], now: u64) {
        while let Some(byte) = nrf.next_byte() {
            let Some(frame) = self.parser.push(byte) else { continue };
            if self.link.on_frame(now_ms, &frame) == Received::Packet
                && let Some(packet) = Packet::from_bytes(frame.data())
            {
                let answer = self.with(flash, |services, context| services.handle(now_ms, &packet, context));
                self.outbox.extend(answer);
            }
        }
        self.tables.choose(&self.settings.try_out, &self.settings.guard, false);
        self.telemetry.table = self.tables.status();
        while let Some(job) = self.services.next_store_job() {
            let result = Ok(match job.request {
                StoreRequest::Keep(raw) => Some(raw),
                _ => None,
            });
            let done = StoreDone { job, result };
            let answer = self.with(flash, |services, context| services.store_done(&done, context));
            self.outbox.extend(answer);
        }
        let mut say = |frame: &Frame| {
            let (bytes, len) = frame.encode();
            bytes[..len].iter().for_each(|b| nrf.serial(*b, now));
        };
        while let Some(frame) = self.link.next_frame(now_ms) {
            say(&frame);
        }
        while self.link.may_send() {
            let next = self.outbox.pop_front();
            let next = next.or_else(|| self.with(flash, |services, context| services.poll(now_ms, context)));
            let Some(packet) = next else { break };
            say(&Frame::new(Kind::RadioRaw, packet.bytes()).unwrap());
            self.link.sent();
        }
    }

    fn with<T>(&mut self, flash: &[u8], work: impl FnOnce(&mut Services, &mut Context<'_>) -> T) -> T {
        let mut context = Context {
            route: Route::Radio,
            settings: &mut self.settings,
            telemetry: &self.telemetry,
            device: &self.device,
            flash: &area(flash),
            send: &mut |_: Command| true,
        };
        work(&mut self.services, &mut context)
    }
}

/// The quick drone.
pub struct QuickDrone {
    pub nrf: Nrf,
    pub flash: Vec<u8>,
    firmware: Option<Firmware>,
    starts_at: Option<u64>,
    now: u64,
    air: Air,
    queue: VecDeque<Packet>,
    /// Power cuts so far.
    pub cuts: u32,
    /// Packets that reached the drone's radio.
    pub packets: u64,
    /// The drone is gone for good from this time on, ms.
    pub dies_at_ms: Option<u64>,
}

impl QuickDrone {
    /// Switched on, with tables in its flash.
    pub fn new(tables: &[GainTable], trouble: Trouble, seed: u64) -> Shared<Self> {
        let mut bytes = vec![0xFF; map::FLASH_LEN];
        bytes[0x4000..0x4008].copy_from_slice(&[0, 0, 2, 0x20, 9, 0x40, 0, 8]);
        for (n, table) in tables.iter().enumerate() {
            let at = (FLASH_ADDRESS - map::FLASH) as usize + n * PAGE_SIZE;
            flash::program(&mut bytes, at, &table.encode());
        }
        Self::with_flash(bytes, trouble, seed)
    }

    /// Switched on, with a flash.
    pub fn with_flash(bytes: Vec<u8>, trouble: Trouble, seed: u64) -> Shared<Self> {
        Shared(Rc::new(RefCell::new(Self {
            nrf: Nrf::new(false),
            flash: bytes,
            firmware: None,
            starts_at: Some(BOOT_MS * TICKS_PER_MS),
            now: 0,
            air: Air::new(trouble, seed),
            queue: VecDeque::new(),
            cuts: 0,
            packets: 0,
            dies_at_ms: None,
        })))
    }

    /// The table a firmware that starts now would fly.
    pub fn active(&self) -> u32 {
        scan(&self.flash).newest.map_or(0, |(_, table)| table.sequence)
    }

    /// True while a firmware runs.
    pub fn is_running(&self) -> bool {
        self.firmware.is_some()
    }

    fn now_us(&self) -> u64 {
        self.now / (TICKS_PER_MS / 1000)
    }

    fn millisecond(&mut self) {
        self.now += TICKS_PER_MS;
        let (now, now_us) = (self.now, self.now_us());
        if self.dies_at_ms.is_some_and(|at| now_us / 1000 >= at) {
            return;
        }
        self.nrf.tick(&mut self.flash, now);
        self.obey();
        if self.starts_at.is_some_and(|at| at <= now) {
            self.starts_at = None;
            self.start();
        }
        if let Some(firmware) = &mut self.firmware {
            firmware.millisecond((now_us / 1000) as u32, &mut self.nrf, &self.flash, now);
        }
        while let Some(packet) = self.air.uplink.take(now_us) {
            self.queue.push_back(packet);
        }
        if self.air.is_silent {
            return;
        }
        let packet = self.queue.front().copied().unwrap_or(Packet::NULL);
        if let Some(Ack(answer)) = self.nrf.radio(&packet, &mut self.flash, now) {
            self.packets += 1;
            self.queue.pop_front();
            if let Some(answer) = answer.filter(|p| p.bytes().len() > 1) {
                self.air.downlink.put(now_us, answer);
            }
        }
        self.obey();
    }

    /// Starts the firmware, if there is one.
    fn start(&mut self) {
        if self.flash[0x4000..0x4004] == [0xFF; 4] {
            self.nrf.cold_boot(&mut self.flash, self.now);
            self.nrf.take_request();
        } else {
            self.firmware = Some(Firmware::start(&self.flash));
        }
    }

    /// Does what the radio processor wants.
    fn obey(&mut self) {
        match self.nrf.take_request() {
            Some(Stop::Halt) => self.firmware = None,
            Some(Stop::Reset(_)) => {
                self.firmware = None;
                self.starts_at = Some(self.now + BOOT_MS * TICKS_PER_MS);
            }
            Some(Stop::PowerCut) => {
                self.cuts += 1;
                self.firmware = None;
                self.nrf.power_cut(&mut self.flash, self.now);
                self.starts_at = Some(self.now + BOOT_MS * TICKS_PER_MS);
            }
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
}

impl Link for Shared<QuickDrone> {
    fn send(&mut self, packet: &Packet) -> Result<()> {
        let mut drone = self.0.borrow_mut();
        let now = drone.now_us();
        drone.air.put(now, packet);
        Ok(())
    }
    fn receive(&mut self, wait: Duration) -> Result<Option<Packet>> {
        let mut drone = self.0.borrow_mut();
        let until = drone.now_us() + wait.as_micros() as u64;
        loop {
            let now = drone.now_us();
            let packet = drone.air.take(now);
            if packet.is_some() || now >= until {
                return Ok(packet);
            }
            drone.millisecond();
        }
    }
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.borrow().now_us())
    }
    fn traffic(&self) -> Traffic {
        self.0.borrow().air.traffic()
    }
    fn switch_to(&mut self, _: Peer) -> Result<()> {
        Ok(())
    }
}

/// A drone in reach of an [`Antenna`].
pub trait InReach {
    /// One transmission, which takes a millisecond.
    fn exchange(&mut self, packet: &Packet) -> Option<Ack>;
    /// A millisecond without one.
    fn idle(&mut self);
    /// Time of the drone, µs.
    fn time_us(&self) -> u64;
}

impl InReach for RealDrone {
    fn exchange(&mut self, packet: &Packet) -> Option<Ack> {
        self.air.borrow_mut().is_silent = true;
        let (board, mut memory) = self.session.machine.parts();
        let ack = board.radio(&mut memory, packet);
        self.millisecond();
        ack
    }
    fn idle(&mut self) {
        self.air.borrow_mut().is_silent = true;
        self.millisecond();
    }
    fn time_us(&self) -> u64 {
        self.now_us()
    }
}

impl InReach for QuickDrone {
    fn exchange(&mut self, packet: &Packet) -> Option<Ack> {
        self.air.is_silent = true;
        let ack = self.nrf.radio(packet, &mut self.flash, self.now);
        self.packets += u64::from(ack.is_some());
        self.obey();
        self.millisecond();
        ack
    }
    fn idle(&mut self) {
        self.air.is_silent = true;
        self.millisecond();
    }
    fn time_us(&self) -> u64 {
        self.now_us()
    }
}

/// A dongle's single transmissions, in the drone's time; packets and acknowledgements get lost.
pub struct Antenna<D> {
    pub drone: Shared<D>,
    loss: f32,
    rng: Rng,
    /// Another client switches safelink on before this transmission, counted down.
    pub switches_on_in: Option<u64>,
}

impl<D: InReach> Antenna<D> {
    pub fn new(drone: &Shared<D>, loss: f32, seed: u64) -> Self {
        Self { drone: drone.clone(), loss, rng: Rng::new(seed, 77), switches_on_in: None }
    }
}

impl<D: InReach> Transmitter for Antenna<D> {
    fn transmit(&mut self, packet: &Packet) -> Result<Option<link::Ack>> {
        let mut drone = self.drone.0.borrow_mut();
        if let Some(left) = &mut self.switches_on_in {
            *left = left.wrapping_sub(1);
            if *left == u64::MAX {
                self.switches_on_in = None;
                drone.exchange(&crtp::link::safelink(true));
            }
        }
        let (up, down) = (self.rng.chance(self.loss), self.rng.chance(self.loss));
        if up {
            drone.idle();
            return Ok(None);
        }
        let ack = drone.exchange(packet);
        Ok(ack.filter(|_| !down).map(|Ack(packet)| link::Ack { packet, rssi_dbm: None }))
    }
    fn tune(&mut self, _: Peer) -> Result<()> {
        Ok(())
    }
    fn now(&self) -> Duration {
        Duration::from_micros(self.drone.0.borrow().time_us())
    }
    fn pause(&mut self, time: Duration) {
        let mut drone = self.drone.0.borrow_mut();
        (0..time.as_millis()).for_each(|_| drone.idle());
    }
}

/// A client of a drone, without a cache.
pub fn client<D: 'static>(drone: &Shared<D>) -> Client
where
    Shared<D>: Link,
{
    Client::new(Box::new(drone.clone()), Cache::default())
}

/// A table with a number, whose gains tell it from others.
pub fn table(sequence: u32) -> GainTable {
    let mut table = GainTable { sequence, ..GainTable::built_in() };
    table.source = u64::from(sequence);
    table.gains.position.p.xy *= 1.0 + 0.001 * (sequence % 100) as f32;
    table
}
