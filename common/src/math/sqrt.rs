//! The square root, correctly rounded on every target.
//!
//! `core` has none on stable. On a PC it is the SSE instruction; on the drone the Cortex-M4F's
//! `VSQRT.F32` is reached through a two-instruction assembly function. These two shims are the only
//! `unsafe` of this crate. Everywhere else `libm` computes the same bits.

/// Square root of a single; NaN for negative numbers.
#[must_use]
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    imp::sqrt(x)
}

/// Square root of a double, for checking the control law in double precision on the PC.
#[must_use]
#[inline(always)]
pub fn sqrt_f64(x: f64) -> f64 {
    libm::sqrt(x)
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod imp {
    use core::arch::x86_64::{_mm_cvtss_f32, _mm_set_ss, _mm_sqrt_ss};

    #[inline(always)]
    pub(super) fn sqrt(x: f32) -> f32 {
        // SAFETY: SSE is part of every x86-64 processor; the intrinsics touch registers only.
        unsafe { _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))) }
    }
}

#[cfg(all(target_arch = "arm", target_abi = "eabihf"))]
#[allow(unsafe_code)]
mod imp {
    core::arch::global_asm!(
        ".syntax unified",
        ".thumb",
        // Link-time optimisation assembles this without the target's features.
        ".fpu fpv4-sp-d16",
        ".section .text.steady_vsqrt,\"ax\",%progbits",
        ".global steady_vsqrt",
        ".type steady_vsqrt,%function",
        ".thumb_func",
        "steady_vsqrt:",
        "vsqrt.f32 s0, s0",
        "bx lr",
        ".size steady_vsqrt, . - steady_vsqrt",
    );

    unsafe extern "C" {
        // The hard-float calling convention passes the argument and the result in s0.
        safe fn steady_vsqrt(x: f32) -> f32;
    }

    #[inline(always)]
    pub(super) fn sqrt(x: f32) -> f32 {
        steady_vsqrt(x)
    }
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "arm", target_abi = "eabihf"))))]
mod imp {
    #[inline(always)]
    pub(super) fn sqrt(x: f32) -> f32 {
        libm::sqrtf(x)
    }
}
