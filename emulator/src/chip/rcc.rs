//! Clocks and resets.

/// Registers of the clock controller.
#[derive(Clone, Debug)]
pub struct Rcc {
    registers: [u32; 0x24],
}

const CR: usize = 0;
const CFGR: usize = 0x08 / 4;
const BDCR: usize = 0x70 / 4;
const CSR: usize = 0x74 / 4;

/// Why the chip was reset, as CSR tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetCause {
    /// Power came on.
    PowerOn,
    /// The supply dipped.
    BrownOut,
    /// The reset pin: the radio processor did it.
    Pin,
    /// The firmware asked for it.
    Software,
    /// The watchdog was not fed.
    Watchdog,
}

impl ResetCause {
    fn flags(self) -> u32 {
        const PIN: u32 = 1 << 26;
        match self {
            Self::PowerOn => 1 << 27 | 1 << 25 | PIN,
            Self::BrownOut => 1 << 25 | PIN,
            Self::Pin => PIN,
            Self::Software => 1 << 28 | PIN,
            Self::Watchdog => 1 << 29 | PIN,
        }
    }
}

impl Rcc {
    /// As the bootloader leaves it: crystal and PLL on, 168 MHz, buses at 42 and 84 MHz.
    #[must_use]
    pub fn after_bootloader(cause: ResetCause) -> Self {
        let mut registers = [0; 0x24];
        registers[CR] = 0x0303_0083;
        registers[1] = 7 << 24 | 1 << 22 | 336 << 6 | 8;
        registers[CFGR] = 0x0000_940A;
        registers[CSR] = cause.flags();
        Self { registers }
    }

    /// As after a reset, without a bootloader: 16 MHz from the internal oscillator.
    #[must_use]
    pub fn after_reset(cause: ResetCause) -> Self {
        let mut registers = [0; 0x24];
        registers[CR] = 0x0000_0083;
        registers[1] = 0x2400_3010;
        registers[CSR] = cause.flags();
        Self { registers }
    }

    /// Reads a register.
    #[must_use]
    pub fn read(&self, offset: u32) -> Option<u32> {
        let index = offset as usize / 4;
        let value = *self.registers.get(index)?;
        Some(match index {
            // What is switched on is ready at once.
            CR => {
                let on = value & 0x0501_0001;
                (value & !0x0A02_0002) | on << 1
            }
            CFGR => (value & !0xC) | (value & 3) << 2,
            BDCR => (value & !2) | (value & 1) << 1,
            CSR => (value & !2) | (value & 1) << 1,
            _ => value,
        })
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u32, value: u32) -> Option<()> {
        let index = offset as usize / 4;
        let register = self.registers.get_mut(index)?;
        *register = if index == CSR {
            let flags = if value & (1 << 24) != 0 { 0 } else { *register & 0xFE00_0000 };
            flags | (value & 1)
        } else {
            value
        };
        Some(())
    }

    /// Core clock, Hz.
    #[must_use]
    pub fn core_hz(&self) -> u64 {
        let system = match self.registers[CFGR] & 3 {
            0 => 16_000_000,
            1 => 8_000_000,
            _ => {
                let pll = u64::from(self.registers[1]);
                let source = if pll & (1 << 22) != 0 { 8_000_000 } else { 16_000_000 };
                // Factors that the chip does not allow (N below 50, M below 2) make no clock there; here, a slow one.
                let (m, n, p) = (pll & 0x3F, pll >> 6 & 0x1FF, 2 * ((pll >> 16 & 3) + 1));
                source * n.max(50) / (m.max(1) * p)
            }
        };
        let hpre = self.registers[CFGR] >> 4 & 0xF;
        system >> [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 6, 7, 8, 9][hpre as usize]
    }

    fn divider(&self, shift: u32) -> u64 {
        match self.registers[CFGR] >> shift & 7 {
            field @ 4..=7 => 2 << (field - 4),
            _ => 1,
        }
    }

    /// Clock of APB1 and of its timers, Hz.
    #[must_use]
    pub fn apb1_hz(&self) -> (u64, u64) {
        let divider = self.divider(10);
        let bus = self.core_hz() / divider;
        (bus, if divider == 1 { bus } else { 2 * bus })
    }

    /// Clock of APB2, Hz.
    #[must_use]
    pub fn apb2_hz(&self) -> u64 {
        self.core_hz() / self.divider(13)
    }

    /// Clock of the USB controller from the PLL, Hz.
    #[must_use]
    pub fn usb_hz(&self) -> u64 {
        let pll = u64::from(self.registers[1]);
        let source = if pll & (1 << 22) != 0 { 8_000_000 } else { 16_000_000 };
        let (m, n, q) = (pll & 0x3F, pll >> 6 & 0x1FF, pll >> 24 & 0xF);
        let is_on = self.registers[CR] & (1 << 24) != 0;
        if is_on { source * n / (m.max(1) * q.max(1)) } else { 0 }
    }

    /// True when the peripheral at an address has its clock.
    #[must_use]
    pub fn has_clock(&self, address: u32) -> bool {
        let enabled = |offset: usize, bit: u32| self.registers[offset / 4] >> bit & 1 != 0;
        match address {
            0x4002_0000..=0x4002_23FF => enabled(0x30, (address >> 10) & 0xF),
            0x4002_3000..=0x4002_33FF => enabled(0x30, 12),
            0x4002_6000..=0x4002_63FF => enabled(0x30, 21),
            0x4002_6400..=0x4002_67FF => enabled(0x30, 22),
            0x4000_0000..=0x4000_1FFF => enabled(0x40, (address >> 10) & 7),
            0x4000_5400..=0x4000_5FFF => enabled(0x40, 21 + ((address - 0x4000_5400) >> 10)),
            0x4000_7000..=0x4000_73FF => enabled(0x40, 28),
            0x5000_0000..=0x5003_FFFF => enabled(0x34, 7),
            0x4001_1400..=0x4001_17FF => enabled(0x44, 5),
            0x4001_3000..=0x4001_33FF => enabled(0x44, 12),
            0x4001_3800..=0x4001_3BFF => enabled(0x44, 14),
            _ => true,
        }
    }

    /// Whether a bit of a reset register is set: (offset, bit).
    #[must_use]
    pub fn is_set(&self, offset: usize, bit: u32) -> bool {
        self.registers[offset / 4] >> bit & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bootloader_leaves_168_mhz() {
        let rcc = Rcc::after_bootloader(ResetCause::PowerOn);
        assert_eq!(rcc.core_hz(), 168_000_000);
        assert_eq!(rcc.apb1_hz(), (42_000_000, 84_000_000));
        assert_eq!(rcc.apb2_hz(), 84_000_000);
        assert_eq!(rcc.read(8).unwrap() >> 2 & 3, 2);
        assert!(!rcc.has_clock(0x4002_0000) && rcc.has_clock(0x4002_3800));
        assert_eq!(Rcc::after_reset(ResetCause::Pin).core_hz(), 16_000_000);
    }

    #[test]
    fn what_is_switched_on_becomes_ready_and_reset_flags_clear() {
        let mut rcc = Rcc::after_reset(ResetCause::Watchdog);
        rcc.write(0, rcc.read(0).unwrap() | 1 << 16).unwrap();
        assert_ne!(rcc.read(0).unwrap() & 1 << 17, 0);
        assert_ne!(rcc.read(0x74).unwrap() & 1 << 29, 0);
        rcc.write(0x74, 1 << 24).unwrap();
        assert_eq!(rcc.read(0x74), Some(0));
    }
}
