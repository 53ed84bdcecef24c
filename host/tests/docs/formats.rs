//! `docs/formats.md`: bytes and columns.

use steady::log::{column_name, unit};
use steady_common::gain_table::{FORMAT_VERSION, GainTable, PAGE_SIZE, TABLE_SIZE};
use steady_common::gains::{GAINS, Gains};
use steady_common::gains_record;
use steady_common::inputs_record::{self, IMU_FIELDS, MOCAP_FIELDS};
use steady_common::law::LAW_VERSION;
use steady_common::transition::{self, FIELDS, Flags};
use steady_common::usdlog::{Header, RECORD_CRC_NAME, write};
use steady_firmware::toc::LOGS;

use super::{Table, section};

/// The bytes that change with a table's field.
fn place(change: impl Fn(&mut GainTable)) -> (usize, usize) {
    let before = GainTable { sequence: 0x0101_0101, source: 0x0101_0101_0101_0101, ..GainTable::built_in() };
    let mut after = before;
    change(&mut after);
    let (before, after) = (before.encode_head(), after.encode_head());
    let crc = TABLE_SIZE - 4;
    let changed: Vec<usize> = (0..crc).filter(|i| before[*i] != after[*i]).collect();
    let (first, last) = (*changed.first().unwrap(), *changed.last().unwrap());
    assert_eq!(changed.len(), last + 1 - first, "a field in pieces");
    (first, changed.len())
}

/// Another number in all of its bytes.
fn other(value: f32) -> f32 {
    f32::from_bits(!value.to_bits())
}

#[test]
fn gain_table() {
    let page = GainTable { sequence: 1, ..GainTable::built_in() }.encode();
    let u16_at = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
    assert_eq!((&page[..4], u16_at(4), u16_at(6)), (&b"STDY"[..], FORMAT_VERSION, LAW_VERSION));
    let crc = TABLE_SIZE - 4;
    let sum = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(&page[..crc]);
    assert_eq!(page[crc..TABLE_SIZE], sum.to_le_bytes());
    assert!(page[TABLE_SIZE..].iter().all(|byte| *byte == 0xFF) && page.len() == PAGE_SIZE);

    let mut table = Table::new(&["offset", "type", "field", "unit"]);
    table.row(&[&0, &"u32", &"magic, the letters `STDY`", &""]);
    table.row(&[&4, &"u16", &format!("format version, {FORMAT_VERSION}"), &""]);
    table.row(&[&6, &"u16", &format!("version of the control law, {LAW_VERSION}"), &""]);
    let sequence = "sequence number, 1 and up; the highest valid one flies";
    let bounds = "number of the bounds that the gains were checked against";
    let source = "hash of the run that made the table; 0 is by hand or built in";
    let (at, size) = place(|t| t.sequence = !t.sequence);
    table.row(&[&at, &format!("u{}", 8 * size), &sequence, &""]);
    let (at, size) = place(|t| t.bounds_id = !t.bounds_id);
    table.row(&[&at, &format!("u{}", 8 * size), &bounds, &""]);
    let (at, size) = place(|t| t.source = !t.source);
    table.row(&[&at, &format!("u{}", 8 * size), &source, &""]);
    let (at, size) = place(|t| t.vehicle.mass = other(t.vehicle.mass));
    table.row(&[&at, &format!("f{}", 8 * size), &"mass that the feed-forward assumes", &"kg"]);
    for (index, (name, unit)) in
        [("position", "m s"), ("velocity", "m"), ("attitude", "rad s"), ("rate", "rad")]
            .into_iter()
            .enumerate()
    {
        let (xy, size) = place(|t| {
            let limit = &mut t.vehicle.integral_limits[index].xy;
            *limit = other(*limit);
        });
        table.row(&[&xy, &format!("f{}", 8 * size), &format!("limit of the integral `{name}.xy`"), &unit]);
        let (z, size) = place(|t| {
            let limit = &mut t.vehicle.integral_limits[index].z;
            *limit = other(*limit);
        });
        table.row(&[&z, &format!("f{}", 8 * size), &format!("limit of the integral `{name}.z`"), &unit]);
    }
    for (index, gain) in GAINS.iter().enumerate() {
        let (at, size) = place(|t| {
            let mut gains = t.gains.to_array();
            gains[index] = other(gains[index]);
            t.gains = Gains::from_array(gains);
        });
        table.row(&[&at, &format!("f{}", 8 * size), &format!("gain `{}`", gain.name), &gain.unit]);
    }
    table.row(&[&crc, &"u32", &format!("CRC-32 (ISO-HDLC) of bytes 0 to {}", crc - 1), &""]);
    table.row(&[&TABLE_SIZE, &"", &format!("0xFF to the page's end at {PAGE_SIZE}"), &""]);
    section("formats.md", "gain table", &table.0);
}

/// What a field of a control step is, and in which frame.
fn meaning(name: &str) -> &'static str {
    match name {
        "steady.seq" => "number of the control step since boot; a gap is a lost record",
        "stateEstimate.x" | "stateEstimate.y" | "stateEstimate.z" => "estimated position, world",
        "stateEstimate.vx" | "stateEstimate.vy" | "stateEstimate.vz" => "estimated velocity, world",
        "steady.rateX" | "steady.rateY" | "steady.rateZ" => "body rate, body",
        "ctrltarget.x" | "ctrltarget.y" | "ctrltarget.z" => "reference position, world",
        "ctrltarget.vx" | "ctrltarget.vy" | "ctrltarget.vz" => "reference velocity, world",
        "ctrltarget.ax" | "ctrltarget.ay" | "ctrltarget.az" => {
            "reference acceleration, world, without gravity"
        }
        "steady.refYaw" => "reference heading, world, from x to y",
        "steady.refYawRate" => "its rate",
        "steady.dt" => "length of the step as the law was told",
        "pm.vbat" => "battery",
        "steady.table" => "sequence number of the gain table; 0 is built in",
        "steady.flags" => "bits, see below",
        "stabilizer.controller" => "1 PID, 2 stock Mellinger, 6 differentiable Mellinger",
        "steady.supervisor" => "[state](troubleshooting.md#supervisor)",
        "steady.guard" => "[gain guard](troubleshooting.md#gain-guard)",
        RECORD_CRC_NAME => "CRC-16/IBM-3740 of all bytes of the record before it",
        _ if name.starts_with("stateEstimate.q") => "estimated attitude, body to world, unit quaternion",
        _ if name.starts_with("steady.iPos") => "integral of the position error before the step, world",
        _ if name.starts_with("steady.iVel") => "integral of the velocity error before the step, world",
        _ if name.starts_with("steady.iAtt") => "integral of the attitude error before the step, body",
        _ if name.starts_with("steady.iRate") => "integral of the rate error before the step, body",
        _ if name.starts_with("steady.dPos") => {
            "filtered derivative of the position error before the step, world"
        }
        _ if name.starts_with("steady.dVel") => {
            "filtered derivative of the velocity error before the step, world"
        }
        _ if name.starts_with("steady.dAtt") => {
            "filtered derivative of the attitude error before the step, body"
        }
        _ if name.starts_with("steady.dRate") => {
            "filtered derivative of the rate error before the step, body"
        }
        _ if name.starts_with("steady.eAtt") => "last attitude error before the step, body",
        _ if name.starts_with("steady.law") => "action of the controller, 1 is one motor's full thrust",
        _ if name.starts_with("steady.act") => {
            "the same with exploration noise: what the motors were asked for"
        }
        _ if name.starts_with("motor.m") => "PWM of the motor after battery compensation and limits",
        _ => panic!("what is {name}?"),
    }
}

#[test]
fn control_step() {
    let mut table = Table::new(&["offset", "type", "variable", "column", "what, and its frame"]);
    table.row(&[&0, &"u16", &"", &"", &format!("event id, {:#06x}", transition::EVENT_ID)]);
    table.row(&[&2, &"u64", &"", &"`time_us`", &"time since boot, µs"]);
    let mut at = 10;
    for field in FIELDS {
        let column = column_name(field.name, field.unit);
        let name = format!("`{}`", field.name);
        let mut what = meaning(field.name).to_owned();
        if let Some(default) = field.default {
            what += &format!("; {default} in logs without it");
        }
        table.row(&[&at, &field.kind.name(), &name, &format!("`{column}`"), &what]);
        at += field.kind.size();
    }
    assert_eq!(at, transition::RECORD_SIZE);
    section("formats.md", "control step", &table.0);

    let mut table = Table::new(&["bit", "set when"]);
    let flags = [
        (Flags::SATURATED, "the motors could not give what was asked"),
        (Flags::NOISE, "exploration noise was added to the action"),
        (Flags::LAW_RESET, "the law started afresh in this step"),
        (Flags::TRY_OUT, "gains set by parameter flew instead of the table's"),
        (Flags::MOTORS_ON, "the supervisor let the motors turn"),
        (Flags::FLYING, "the supervisor saw a flight"),
        (Flags::MOCAP, "motion capture was recent"),
        (Flags::LAW, "the differentiable law made the action, so it can be computed again"),
    ];
    for (flag, what) in flags {
        table.row(&[&flag.0.trailing_zeros(), &what]);
    }
    section("formats.md", "flags", &table.0);
}

#[test]
fn gains_in_a_log() {
    let mut file = Vec::new();
    let mut sink = |bytes: &[u8]| file.extend_from_slice(bytes);
    write::begin(&mut sink, 1);
    gains_record::event(&mut sink);
    let header = Header::parse(&file).unwrap();
    let event = header.events().next().unwrap();
    let mut table = Table::new(&["offset", "type", "variable"]);
    table.row(&[&0, &"u16", &format!("event id, {:#06x}", gains_record::EVENT_ID)]);
    table.row(&[&2, &"u64", &"time since boot, µs"]);
    let mut end = 0;
    for variable in event.variables() {
        table.row(&[&(10 + variable.offset), &variable.kind.name(), &format!("`{}`", variable.name)]);
        end = 10 + variable.offset + variable.kind.size();
    }
    assert_eq!(end, gains_record::RECORD_SIZE);
    section("formats.md", "gains in a log", &table.0);
}

#[test]
fn inputs_in_a_log() {
    let mut table = Table::new(&["event", "offset", "type", "variable", "column"]);
    for (event, fields) in
        [(inputs_record::IMU_EVENT, &IMU_FIELDS[..]), (inputs_record::MOCAP_EVENT, &MOCAP_FIELDS[..])]
    {
        let mut at = 10;
        for field in fields {
            let column = column_name(field.name, field.unit);
            let names = [format!("`{event}`"), format!("`{}`", field.name), format!("`{column}`")];
            table.row(&[&names[0], &at, &field.kind.name(), &names[1], &names[2]]);
            at += field.kind.size();
        }
    }
    section("formats.md", "inputs in a log", &table.0);
}

#[test]
fn log_variables() {
    let mut table = Table::new(&["variable", "type", "column"]);
    for log in LOGS {
        let name = format!("{}.{}", log.group, log.name);
        let column = column_name(&name, unit("fixedFrequency", &name));
        table.row(&[&format!("`{name}`"), &log.kind.name(), &format!("`{column}`")]);
    }
    section("formats.md", "log variables", &table.0);
}
