//! The radio task: packets in, answers and reports out, by radio and by cable.

use core::sync::atomic::Ordering;

use embassy_time::{Duration, with_timeout};
use heapless::Deque;
use heapless::spsc::Producer;
use steady_common::commander::Command;
use steady_common::crtp::{Packet, Port};
use steady_common::syslink::{DeckId, Frame, Kind, Parser};
use steady_firmware::drivers::nrf51::{Link, RadioSettings, Received};
use steady_firmware::route::Route;
use steady_firmware::services::{Context, Device, Flash, Services};
use steady_firmware::settings::Settings;
use steady_firmware::shutdown::Shutdown;
use steady_firmware::telemetry::Telemetry;

use super::shared::{
    CARD, CLOSED, DECKS, DEVICE, DOUBTS, LED_RING, LEDS, LINES, MICRO_SD, SENSORS_OK, SETTINGS, SHUTDOWN,
    STORE_DONE, STORE_JOBS, TELEMETRY, set_battery_v,
};
use crate::board::{memory, time, uart, usb};

/// How often the link is looked after when nothing arrives.
const TICK: Duration = Duration::from_millis(1);
/// Time between two reports about the device, ms.
const DEVICE_MS: u32 = 10;

/// What the task owns.
pub(crate) struct Parts {
    pub(crate) receiver: uart::Receiver,
    pub(crate) sender: uart::Sender,
    pub(crate) usb: Option<usb::Cable>,
    pub(crate) services: &'static mut Services,
    pub(crate) commands: Producer<'static, Command>,
    pub(crate) settings: Settings,
    pub(crate) radio: RadioSettings,
    pub(crate) device: Device,
}

/// The gain tables, for the memory service.
struct Tables;

impl Flash for Tables {
    fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        memory::read_tables(offset, into)
    }
}

/// Never returns.
#[embassy_executor::task]
pub(crate) async fn run(parts: Parts) {
    let Parts { mut receiver, mut sender, mut usb, services, commands, settings, radio, device } = parts;
    let mut link = Link::new(radio);
    let mut parser = Parser::new();
    let mut inbox: Deque<Frame, 16> = Deque::new();
    let mut radio = Radio {
        services,
        commands,
        settings,
        telemetry: Telemetry::default(),
        device,
        outbox: Deque::new(),
        shutdown: Shutdown::default(),
        decks_are_told: false,
        reported_ms: 0,
    };
    uart::follow_flow_control();
    loop {
        // What arrives while the inbox is full is lost, as on the air; the protocols above repeat.
        let bytes = receiver.receive(|byte| {
            if let Some(frame) = parser.push(byte) {
                let _ = inbox.push_back(frame);
            }
        });
        let _ = with_timeout(TICK, bytes).await;
        let now_ms = (time::now_us() / 1000) as u32;
        radio.telemetry = TELEMETRY.get().unwrap_or(radio.telemetry);
        while let Some(frame) = inbox.pop_front() {
            match link.on_frame(now_ms, &frame) {
                Received::Packet => radio.frame(now_ms, &frame),
                Received::Shutdown => radio.shutdown.press(),
                Received::Nothing => {}
            }
        }
        if let Some(cable) = &mut usb {
            radio.listen(now_ms, cable);
        }
        radio.look_after(now_ms, &mut link, parser.damaged(), usb.as_mut());
        while let Some(frame) = link.next_frame(now_ms) {
            sender.send(&frame).await;
        }
        while link.may_send() {
            let Some(packet) = radio.next_packet(now_ms) else { break };
            let Some(frame) = Frame::new(Kind::RadioRaw, packet.bytes()) else { break };
            if !sender.send(&frame).await {
                break;
            }
            link.sent();
        }
        if let Some(cable) = &mut usb {
            while cable.may_post()
                && let Some(packet) = radio.unasked(now_ms, Route::Usb)
            {
                cable.post(&packet);
            }
        }
    }
}

/// The services with what they work on.
struct Radio {
    services: &'static mut Services,
    commands: Producer<'static, Command>,
    settings: Settings,
    telemetry: Telemetry,
    device: Device,
    /// Answers by radio that wait for their turn.
    outbox: Deque<Packet, 16>,
    shutdown: Shutdown,
    decks_are_told: bool,
    reported_ms: u32,
}

impl Radio {
    /// Lets the services work.
    fn with<T>(&mut self, route: Route, work: impl FnOnce(&mut Services, &mut Context<'_>) -> T) -> T {
        let mut context = Context {
            route,
            settings: &mut self.settings,
            telemetry: &self.telemetry,
            device: &self.device,
            flash: &Tables,
            send: &mut |command| self.commands.enqueue(command).is_ok(),
        };
        work(self.services, &mut context)
    }

    /// Looks what the cable has.
    #[inline(never)]
    fn listen(&mut self, now_ms: u32, cable: &mut usb::Cable) {
        // Packets come only while a client wants them here.
        cable.poll(now_ms, |packet| {
            self.services.set_usb(true);
            self.packet(now_ms, Route::Usb, packet, false)
        });
        self.services.set_usb(cable.is_on());
    }

    /// A packet came by radio.
    fn frame(&mut self, now_ms: u32, frame: &Frame) {
        let Some(packet) = Packet::from_bytes(frame.data()) else { return };
        let is_broadcast = frame.kind() == Some(Kind::RadioRawBroadcast);
        let answer = self.packet(now_ms, Route::Radio, &packet, is_broadcast);
        self.post(answer);
    }

    /// A packet for this drone or for all, and the answer.
    fn packet(&mut self, now_ms: u32, route: Route, packet: &Packet, is_broadcast: bool) -> Option<Packet> {
        let before = (packet.port() == Some(Port::Param)).then_some(self.settings);
        let stop = self.settings.stop;
        let answer = self.with(route, |services, context| {
            if is_broadcast {
                services.handle_broadcast(now_ms, packet, context);
                return None;
            }
            services.handle(now_ms, packet, context)
        });
        // The flight task copies settings only when a parameter or an emergency has changed them.
        if before.is_some_and(|before| before != self.settings) || stop != self.settings.stop {
            SETTINGS.set(self.settings);
        }
        if packet.port() == Some(Port::Memory) {
            LEDS.set(*self.services.led_memory());
        }
        answer
    }

    fn post(&mut self, answer: Option<Packet>) {
        if let Some(answer) = answer {
            // Only a client that asks faster than it listens loses answers.
            let _ = self.outbox.push_back(answer);
        }
    }

    /// The next packet by radio: answers first, then what the drone has to say by itself.
    fn next_packet(&mut self, now_ms: u32) -> Option<Packet> {
        self.outbox.pop_front().or_else(|| self.unasked(now_ms, Route::Radio))
    }

    /// What the drone has to say by itself.
    fn unasked(&mut self, now_ms: u32, route: Route) -> Option<Packet> {
        self.with(route, |services, context| services.poll(now_ms, context))
    }

    /// Everything between the packets.
    fn look_after(
        &mut self,
        now_ms: u32,
        link: &mut Link,
        bad_frames: u32,
        mut usb: Option<&mut usb::Cable>,
    ) {
        if let Some(battery) = link.battery() {
            set_battery_v(battery.voltage);
        }
        while let Ok(line) = LINES.try_receive() {
            self.services.console.print(&line);
        }
        // A job that finds no room comes back to the client as no answer, and it asks again.
        while let Some(job) = self.services.next_store_job() {
            let _ = STORE_JOBS.try_send(job);
        }
        while let Ok(done) = STORE_DONE.try_receive() {
            let route = done.job.route;
            let answer = self.with(route, |services, context| services.store_done(&done, context));
            match (route, answer, &mut usb) {
                (Route::Usb, Some(answer), Some(cable)) => cable.post(&answer),
                (Route::Usb, ..) => {}
                (Route::Radio, answer, _) => self.post(answer),
            }
        }
        if now_ms.wrapping_sub(self.reported_ms) >= DEVICE_MS {
            self.reported_ms = now_ms;
            let bad_transfers = usb.map_or(0, |cable| cable.bad());
            self.report(now_ms, link, bad_frames, bad_transfers);
        }
        let closed = CLOSED.load(Ordering::Acquire);
        let orders = self.shutdown.step(now_ms, self.telemetry.supervisor, closed);
        if orders.come_down {
            // Said again until it is there: a full queue swallows it only for a moment.
            let _ = self.commands.enqueue(Command::SwitchOff);
        }
        if orders.close_files {
            SHUTDOWN.store(true, Ordering::Release);
        }
        if orders.acknowledge {
            link.shut_down();
        }
    }

    fn report(&mut self, now_ms: u32, link: &Link, bad_frames: u32, bad_transfers: u32) {
        let has = |id: DeckId| link.decks().iter().any(|deck| deck.id == id);
        let decks = [(MICRO_SD, DeckId::MICRO_SD), (LED_RING, DeckId::LED_RING)];
        let found = decks.iter().filter(|(_, id)| has(*id)).fold(0, |found, (bit, _)| found | bit);
        DECKS.store(found, Ordering::Relaxed);
        if link.is_up() && !self.decks_are_told {
            self.decks_are_told = true;
            self.services.set_decks(link.decks());
        }
        self.device = Device {
            storage: CARD.get().unwrap_or_default(),
            micro_sd_deck: found & MICRO_SD != 0,
            led_ring_deck: found & LED_RING != 0,
            doubts: DOUBTS.get().unwrap_or_default(),
            self_test_passed: SENSORS_OK.load(Ordering::Relaxed),
            rssi: link.rssi(),
            connected: self.services.is_connected(now_ms),
            bad_packets: self.services.bad_packets().wrapping_add(bad_transfers),
            bad_frames,
            ..self.device
        };
        DEVICE.set(self.device);
    }
}
