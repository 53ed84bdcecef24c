//! Attitude in 32 bits: index of the largest component and the other three with ten bits each.

use crate::{Quat, math};

/// Largest value of the three smaller components of a unit quaternion, 1/√2.
const MAX_SMALL: f32 = core::f32::consts::FRAC_1_SQRT_2;
/// Steps of a component's magnitude.
const STEPS: f32 = 511.0;

/// Packs an attitude; invalid quaternions become the identity.
#[must_use]
pub fn compress(attitude: Quat) -> u32 {
    let q = attitude.normalized();
    let parts = [q.x, q.y, q.z, q.w];
    let (mut largest, mut size) = (0, -1.0);
    for (index, part) in parts.iter().enumerate() {
        if math::abs(*part) > size {
            (largest, size) = (index, math::abs(*part));
        }
    }
    let negate = parts.get(largest).is_some_and(|p| *p < 0.0);
    let mut packed = u32::try_from(largest).unwrap_or(0);
    for (_, part) in parts.iter().enumerate().filter(|(index, _)| *index != largest) {
        let negative = (*part < 0.0) != negate;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
        let magnitude = (STEPS * (math::abs(*part) / MAX_SMALL) + 0.5) as u32;
        packed = packed << 10 | u32::from(negative) << 9 | magnitude.min(511);
    }
    packed
}

/// Unpacks an attitude; every number gives a unit quaternion.
#[must_use]
pub fn decompress(packed: u32) -> Quat {
    let largest = packed >> 30;
    let mut parts = [0.0_f32; 4];
    let mut rest = 1.0;
    let mut shift = 30;
    for (index, part) in (0_u32..).zip(&mut parts) {
        if index == largest {
            continue;
        }
        shift -= 10;
        let field = packed >> shift;
        #[allow(clippy::cast_precision_loss, reason = "nine bits")]
        let magnitude = MAX_SMALL * (field & 0x1FF) as f32 / STEPS;
        *part = if field & 0x200 != 0 { -magnitude } else { magnitude };
        rest -= magnitude * magnitude;
    }
    for (index, part) in (0_u32..).zip(&mut parts) {
        if index == largest {
            *part = math::sqrt(if rest > 0.0 { rest } else { 0.0 });
        }
    }
    let [x, y, z, w] = parts;
    Quat::new(w, x, y, z).normalized()
}
