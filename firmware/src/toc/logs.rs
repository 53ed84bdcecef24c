//! The log variables.

use steady_common::crtp::quaternion;
use steady_common::math::RAD_TO_DEG;
use steady_common::value::{Type, Value};
use steady_common::{GRAVITY_M_S2, Vec3, math};

use super::{Log, View};
use crate::services::Device;
use crate::telemetry::Telemetry;

macro_rules! logs {
    ($($group:literal { $($name:literal: $variant:ident = $get:expr;)* })*) => {
        /// Every log variable; its place in the list is its number. Items of a group stand together.
        pub const LOGS: &[Log] = &[$($(
            Log { group: $group, name: $name, kind: Type::$variant, get: |v| Value::$variant($get(v)) },
        )*)*];
    };
}

/// Reads the last flight step.
macro_rules! t {
    ($t:ident => $value:expr) => {
        |v: &View<'_>| {
            let $t: &Telemetry = v.telemetry;
            $value
        }
    };
}

/// Reads the rest of the drone.
macro_rules! d {
    ($d:ident => $value:expr) => {
        |v: &View<'_>| {
            let $d: &Device = v.device;
            $value
        }
    };
}

/// Roll, pitch, yaw in degrees, pitch with the Crazyflie's inverted sign.
fn legacy_angles(t: &Telemetry) -> Vec3 {
    let rpy = t.state.attitude.to_euler() * RAD_TO_DEG;
    Vec3::new(rpy.x, -rpy.y, rpy.z)
}

/// In thousandths, 16 bits.
#[allow(clippy::cast_possible_truncation, reason = "float casts saturate")]
fn milli(value: f32) -> i16 {
    (value * 1000.0) as i16
}

/// Millivolts.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
fn millivolts(volts: f32) -> u16 {
    (volts * 1000.0) as u16
}

/// Rough charge of a resting cell between 3.0 and 4.2 V, in percent, as people want to see it.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
fn battery_percent(volts: f32) -> u8 {
    math::clamp((volts - 3.0) * (100.0 / 1.2), 0.0, 100.0) as u8
}

fn info_bit(t: &Telemetry, bit: u8) -> u8 {
    u8::from(t.supervisor_info & (1 << bit) != 0)
}

logs! {
    "stateEstimate" {
        "x": F32 = t!(t => t.state.position.x);
        "y": F32 = t!(t => t.state.position.y);
        "z": F32 = t!(t => t.state.position.z);
        "vx": F32 = t!(t => t.state.velocity.x);
        "vy": F32 = t!(t => t.state.velocity.y);
        "vz": F32 = t!(t => t.state.velocity.z);
        "roll": F32 = t!(t => legacy_angles(t).x);
        "pitch": F32 = t!(t => legacy_angles(t).y);
        "yaw": F32 = t!(t => legacy_angles(t).z);
        "qx": F32 = t!(t => t.state.attitude.x);
        "qy": F32 = t!(t => t.state.attitude.y);
        "qz": F32 = t!(t => t.state.attitude.z);
        "qw": F32 = t!(t => t.state.attitude.w);
    }
    "stateEstimateZ" {
        "x": I16 = t!(t => milli(t.state.position.x));
        "y": I16 = t!(t => milli(t.state.position.y));
        "z": I16 = t!(t => milli(t.state.position.z));
        "vx": I16 = t!(t => milli(t.state.velocity.x));
        "vy": I16 = t!(t => milli(t.state.velocity.y));
        "vz": I16 = t!(t => milli(t.state.velocity.z));
        "quat": U32 = t!(t => quaternion::compress(t.state.attitude));
        "rateRoll": I16 = t!(t => milli(t.state.rates.x));
        "ratePitch": I16 = t!(t => milli(-t.state.rates.y));
        "rateYaw": I16 = t!(t => milli(t.state.rates.z));
    }
    "stabilizer" {
        "roll": F32 = t!(t => legacy_angles(t).x);
        "pitch": F32 = t!(t => legacy_angles(t).y);
        "yaw": F32 = t!(t => legacy_angles(t).z);
        "thrust": F32 = t!(t => (t.action.thrust + t.noise.thrust) * 65535.0);
    }
    "ctrltarget" {
        "x": F32 = t!(t => t.reference.position.x);
        "y": F32 = t!(t => t.reference.position.y);
        "z": F32 = t!(t => t.reference.position.z);
        "vx": F32 = t!(t => t.reference.velocity.x);
        "vy": F32 = t!(t => t.reference.velocity.y);
        "vz": F32 = t!(t => t.reference.velocity.z);
        "ax": F32 = t!(t => t.reference.acceleration.x);
        "ay": F32 = t!(t => t.reference.acceleration.y);
        "az": F32 = t!(t => t.reference.acceleration.z);
        "yaw": F32 = t!(t => t.reference.yaw * RAD_TO_DEG);
    }
    // As the paper's authors log them: errors are set-point minus estimate, and the attitude
    // integrals are of the stock controller's error (twice ours, inverted pitch).
    "ctrlMel" {
        "cmd_thrust": F32 = t!(t => t.action.thrust * 65535.0);
        "cmd_roll": F32 = t!(t => t.action.roll * 65535.0);
        "cmd_pitch": F32 = t!(t => t.action.pitch * 65535.0);
        "cmd_yaw": F32 = t!(t => t.action.yaw * 65535.0);
        "pos_error_x": F32 = t!(t => t.reference.position.x - t.state.position.x);
        "pos_error_y": F32 = t!(t => t.reference.position.y - t.state.position.y);
        "pos_error_z": F32 = t!(t => t.reference.position.z - t.state.position.z);
        "i_err_x": F32 = t!(t => -t.memory.integral.position.x);
        "i_err_y": F32 = t!(t => -t.memory.integral.position.y);
        "i_err_z": F32 = t!(t => -t.memory.integral.position.z);
        "i_err_mx": F32 = t!(t => -2.0 * t.memory.integral.attitude.x);
        "i_err_my": F32 = t!(t => 2.0 * t.memory.integral.attitude.y);
        "i_err_mz": F32 = t!(t => -2.0 * t.memory.integral.attitude.z);
    }
    "gyro" {
        "x": F32 = t!(t => t.gyro.x * RAD_TO_DEG);
        "y": F32 = t!(t => t.gyro.y * RAD_TO_DEG);
        "z": F32 = t!(t => t.gyro.z * RAD_TO_DEG);
    }
    "acc" {
        "x": F32 = t!(t => t.accelerometer.x / GRAVITY_M_S2);
        "y": F32 = t!(t => t.accelerometer.y / GRAVITY_M_S2);
        "z": F32 = t!(t => t.accelerometer.z / GRAVITY_M_S2);
    }
    "baro" {
        "asl": F32 = t!(t => t.barometer.altitude_m());
        "temp": F32 = t!(t => t.barometer.temperature);
        "pressure": F32 = t!(t => t.barometer.pressure * 0.01);
    }
    // What motion capture last said.
    "locSrv" {
        "x": F32 = t!(t => t.mocap_position.x);
        "y": F32 = t!(t => t.mocap_position.y);
        "z": F32 = t!(t => t.mocap_position.z);
        "qx": F32 = t!(t => t.mocap_attitude.x);
        "qy": F32 = t!(t => t.mocap_attitude.y);
        "qz": F32 = t!(t => t.mocap_attitude.z);
        "qw": F32 = t!(t => t.mocap_attitude.w);
    }
    // Clients wait for these to become small before they fly.
    "kalman" {
        "varPX": F32 = t!(t => t.position_std.x * t.position_std.x);
        "varPY": F32 = t!(t => t.position_std.y * t.position_std.y);
        "varPZ": F32 = t!(t => t.position_std.z * t.position_std.z);
    }
    "motor" {
        "m1": U16 = t!(t => t.pwm[0]);
        "m2": U16 = t!(t => t.pwm[1]);
        "m3": U16 = t!(t => t.pwm[2]);
        "m4": U16 = t!(t => t.pwm[3]);
        "m1req": I32 = t!(t => t.motor_request[0]);
        "m2req": I32 = t!(t => t.motor_request[1]);
        "m3req": I32 = t!(t => t.motor_request[2]);
        "m4req": I32 = t!(t => t.motor_request[3]);
    }
    "pm" {
        "vbat": F32 = t!(t => t.battery_v);
        "vbatMV": U16 = t!(t => millivolts(t.battery_v));
        "batteryLevel": U8 = t!(t => battery_percent(t.battery_v));
    }
    "supervisor" {
        "info": U16 = t!(t => t.supervisor_info);
    }
    "sys" {
        "armed": U8 = t!(t => info_bit(t, 1));
        "canfly": U8 = t!(t => info_bit(t, 3));
        "isFlying": U8 = t!(t => info_bit(t, 4));
        "isTumbled": U8 = t!(t => info_bit(t, 5));
    }
    "radio" {
        "rssi": U8 = d!(d => d.rssi);
        "isConnected": U8 = d!(d => u8::from(d.connected));
    }
    "usd" {
        "state": U8 = d!(d => d.storage.state as u8);
        "produced": U32 = d!(d => d.storage.produced);
        "written": U32 = d!(d => d.storage.written);
        "lost": U32 = d!(d => d.storage.lost());
        "error": U8 = d!(d => d.storage.error_code());
    }
    "steady" {
        "seq": U32 = t!(t => t.sequence);
        "rateX": F32 = t!(t => t.state.rates.x);
        "rateY": F32 = t!(t => t.state.rates.y);
        "rateZ": F32 = t!(t => t.state.rates.z);
        "refYaw": F32 = t!(t => t.reference.yaw);
        "refYawRate": F32 = t!(t => t.reference.yaw_rate);
        "lawThrust": F32 = t!(t => t.action.thrust);
        "lawRoll": F32 = t!(t => t.action.roll);
        "lawPitch": F32 = t!(t => t.action.pitch);
        "lawYaw": F32 = t!(t => t.action.yaw);
        "actThrust": F32 = t!(t => t.action.thrust + t.noise.thrust);
        "actRoll": F32 = t!(t => t.action.roll + t.noise.roll);
        "actPitch": F32 = t!(t => t.action.pitch + t.noise.pitch);
        "actYaw": F32 = t!(t => t.action.yaw + t.noise.yaw);
        "saturated": U8 = t!(t => u8::from(t.saturated));
        "table": U32 = t!(t => t.table.sequence);
        "proven": U8 = t!(t => u8::from(t.table.proven));
        "tryOut": U8 = t!(t => u8::from(t.table.try_out));
        "guard": U8 = t!(t => t.guard.code());
        "supervisor": U8 = t!(t => t.supervisor as u8);
        "blockers": U16 = t!(t => t.blockers.0);
        "landing": U8 = t!(t => t.landing_cause as u8);
        "pilot": U8 = t!(t => t.pilot as u8);
        "mocapAge": U32 = t!(t => t.mocap_age_ms);
        "mocapFrames": U32 = t!(t => t.mocap_frames);
        "mocapRejected": U32 = t!(t => t.mocap_rejected);
        "estResets": U32 = t!(t => t.estimator_resets);
        "refused": U32 = t!(t => t.refused_commands);
        "steps": U32 = t!(t => t.timing.steps);
        "longestGap": U32 = t!(t => t.timing.longest_gap_us);
        "late": U32 = t!(t => t.timing.late);
        "vibX": F32 = t!(t => t.vibration.x);
        "vibY": F32 = t!(t => t.vibration.y);
        "vibZ": F32 = t!(t => t.vibration.z);
        "badPackets": U32 = d!(d => d.bad_packets);
        "badFrames": U32 = d!(d => d.bad_frames);
        "selfTest": U8 = d!(d => d.doubts.bits());
    }
}
