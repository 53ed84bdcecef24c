//! Ports, and the interrupts their pins make (EXTI, SYSCFG).

/// A pin: port (A is 0) and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin(pub u8, pub u8);

/// One port.
#[derive(Clone, Debug, Default)]
struct Port {
    moder: u32,
    otyper: u32,
    ospeedr: u32,
    pupdr: u32,
    odr: u32,
    lock: u32,
    alternate: [u32; 2],
    /// Which pins something outside drives, and to which level.
    driven: u32,
    level: u32,
}

impl Port {
    /// Levels at the pins.
    fn levels(&self) -> u32 {
        let mut levels = 0;
        for pin in 0..16 {
            let field = |register: u32| register >> (2 * pin) & 3;
            let bit = 1 << pin;
            let high = if field(self.moder) == 1 && self.otyper & bit == 0 {
                self.odr & bit != 0
            } else if field(self.moder) == 1 && self.odr & bit == 0 {
                false
            } else if self.driven & bit != 0 {
                self.level & bit != 0
            } else {
                field(self.pupdr) == 1 || field(self.moder) == 1
            };
            levels |= u32::from(high) << pin;
        }
        levels
    }
}

/// Ports A to H with the external interrupts.
#[derive(Clone, Debug)]
pub struct Gpio {
    ports: [Port; 8],
    imr: u32,
    emr: u32,
    rtsr: u32,
    ftsr: u32,
    pending: u32,
    software: u32,
    /// An edge on a line that is an event (EMR), for WFE.
    pub event: bool,
    exticr: [u32; 4],
    syscfg_memrmp: u32,
    syscfg_pmc: u32,
}

impl Default for Gpio {
    fn default() -> Self {
        let mut ports: [Port; 8] = Default::default();
        // Reset values: the debug pins are alternate functions with pulls.
        ports[0].moder = 0xA800_0000;
        ports[0].pupdr = 0x6400_0000;
        ports[1].moder = 0x0000_0280;
        ports[1].pupdr = 0x0000_0100;
        Self {
            ports,
            imr: 0,
            emr: 0,
            rtsr: 0,
            ftsr: 0,
            pending: 0,
            software: 0,
            event: false,
            exticr: [0; 4],
            syscfg_memrmp: 0,
            syscfg_pmc: 0,
        }
    }
}

impl Gpio {
    /// Reset of the chip: what drives the pins from outside goes on.
    pub fn reset(&mut self) {
        let outside = self.ports.clone();
        *self = Self::default();
        for (port, old) in self.ports.iter_mut().zip(outside) {
            (port.driven, port.level) = (old.driven, old.level);
        }
    }

    /// Level of an output or input pin.
    #[must_use]
    pub fn level(&self, Pin(port, pin): Pin) -> bool {
        self.ports[usize::from(port)].levels() >> pin & 1 != 0
    }

    /// True when a pin is an output or alternate function with the given number.
    #[must_use]
    pub fn alternate(&self, Pin(port, pin): Pin) -> Option<u8> {
        let port = &self.ports[usize::from(port)];
        let field = port.moder >> (2 * pin) & 3;
        (field == 2).then(|| (port.alternate[usize::from(pin / 8)] >> (4 * (pin % 8)) & 0xF) as u8)
    }

    /// True when a pin is a general output.
    #[must_use]
    pub fn is_output(&self, Pin(port, pin): Pin) -> bool {
        self.ports[usize::from(port)].moder >> (2 * pin) & 3 == 1
    }

    /// Something outside drives a pin.
    pub fn drive(&mut self, Pin(port, pin): Pin, level: bool) {
        let bit = 1 << pin;
        let p = &mut self.ports[usize::from(port)];
        let before = p.levels();
        p.driven |= bit;
        p.level = if level { p.level | bit } else { p.level & !bit };
        self.look_for_edges(usize::from(port), before);
    }

    /// What a change of a port's levels means for the lines that listen to it, whoever has made it.
    fn look_for_edges(&mut self, port: usize, before: u32) {
        let now = self.ports[port].levels();
        let mut edges = now & !before & self.rtsr | before & !now & self.ftsr;
        for pin in 0..16 {
            if self.exticr[pin / 4] >> (4 * (pin % 4)) & 0xF != port as u32 {
                edges &= !(1 << pin);
            }
        }
        self.pending |= edges & self.imr;
        self.event |= edges & self.emr != 0;
    }

    /// The seven interrupt lines: number and level.
    #[must_use]
    pub fn interrupts(&self) -> [(u8, bool); 7] {
        let any = |mask: u32| self.pending & self.imr & mask != 0;
        [
            (6, any(1)),
            (7, any(2)),
            (8, any(4)),
            (9, any(8)),
            (10, any(16)),
            (23, any(0x03E0)),
            (40, any(0xFC00)),
        ]
    }

    /// Reads a register of a port.
    #[must_use]
    pub fn read(&self, port: usize, offset: u32) -> Option<u32> {
        let p = &self.ports[port];
        Some(match offset {
            0x00 => p.moder,
            0x04 => p.otyper,
            0x08 => p.ospeedr,
            0x0C => p.pupdr,
            0x10 => p.levels(),
            0x14 => p.odr,
            0x18 => 0,
            0x1C => p.lock,
            0x20 | 0x24 => p.alternate[(offset as usize - 0x20) / 4],
            _ => return None,
        })
    }

    /// Writes a register of a port.
    pub fn write(&mut self, port: usize, offset: u32, value: u32) -> Option<()> {
        let p = &mut self.ports[port];
        let before = p.levels();
        match offset {
            0x00 => p.moder = value,
            0x04 => p.otyper = value & 0xFFFF,
            0x08 => p.ospeedr = value,
            0x0C => p.pupdr = value,
            0x14 => p.odr = value & 0xFFFF,
            0x18 => p.odr = (p.odr & !(value >> 16)) | (value & 0xFFFF),
            0x1C => p.lock = value,
            0x20 | 0x24 => p.alternate[(offset as usize - 0x20) / 4] = value,
            _ => return None,
        }
        self.look_for_edges(port, before);
        Some(())
    }

    /// Reads a register of the external interrupts.
    #[must_use]
    pub fn read_exti(&self, offset: u32) -> Option<u32> {
        Some(match offset {
            0x00 => self.imr,
            0x04 => self.emr,
            0x08 => self.rtsr,
            0x0C => self.ftsr,
            0x10 => self.software,
            0x14 => self.pending,
            _ => return None,
        })
    }

    /// Writes a register of the external interrupts.
    pub fn write_exti(&mut self, offset: u32, value: u32) -> Option<()> {
        match offset {
            0x00 => self.imr = value,
            0x04 => self.emr = value,
            0x08 => self.rtsr = value,
            0x0C => self.ftsr = value,
            // A bit that becomes 1 raises its line, and stays until the line is cleared.
            0x10 => {
                let new = value & !self.software;
                self.software = value;
                self.pending |= new & self.imr;
                self.event |= new & self.emr != 0;
            }
            0x14 => {
                self.pending &= !value;
                self.software &= !value;
            }
            _ => return None,
        }
        Some(())
    }

    /// Reads a register of the system configuration.
    #[must_use]
    pub fn read_syscfg(&self, offset: u32) -> Option<u32> {
        Some(match offset {
            0x00 => self.syscfg_memrmp,
            0x04 => self.syscfg_pmc,
            0x08..=0x14 => self.exticr[(offset as usize - 8) / 4],
            0x20 => 0x101,
            _ => return None,
        })
    }

    /// Writes a register of the system configuration.
    pub fn write_syscfg(&mut self, offset: u32, value: u32) -> Option<()> {
        match offset {
            0x00 => self.syscfg_memrmp = value,
            0x04 => self.syscfg_pmc = value,
            0x08..=0x14 => self.exticr[(offset as usize - 8) / 4] = value & 0xFFFF,
            0x20 => {}
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rising_edge_on_the_chosen_port_interrupts_until_it_is_cleared() {
        let mut gpio = Gpio::default();
        gpio.write_syscfg(0x14, 2 << 8).unwrap(); // line 14 from port C
        gpio.write_exti(0x00, 1 << 14).unwrap();
        gpio.write_exti(0x08, 1 << 14).unwrap();
        gpio.drive(Pin(1, 14), true);
        assert_eq!(gpio.interrupts()[6], (40, false), "another port");
        gpio.drive(Pin(2, 14), true);
        assert_eq!(gpio.interrupts()[6], (40, true));
        gpio.drive(Pin(2, 14), false);
        gpio.write_exti(0x14, 1 << 14).unwrap();
        assert_eq!(gpio.interrupts()[6], (40, false));
    }

    #[test]
    fn outputs_read_back_and_inputs_follow_the_outside_or_their_pull() {
        let mut gpio = Gpio::default();
        let pin = Pin(2, 12);
        gpio.write(2, 0x00, 1 << 24).unwrap();
        gpio.write(2, 0x18, 1 << 12).unwrap();
        assert!(gpio.level(pin) && gpio.is_output(pin));
        gpio.write(2, 0x18, 1 << 28).unwrap();
        assert!(!gpio.level(pin));
        gpio.write(2, 0x0C, 1 << 14).unwrap();
        assert!(gpio.level(Pin(2, 7)), "pulled up");
        gpio.drive(Pin(2, 7), false);
        assert!(!gpio.level(Pin(2, 7)));
    }
}
