//! Registers by address.

/// A register.
#[derive(Clone, Copy)]
pub(super) struct Reg(pub(super) u32);

impl Reg {
    pub(super) fn read(self) -> u32 {
        // SAFETY: callers name registers, or words of memory that are set aside for the purpose.
        unsafe { (self.0 as *const u32).read_volatile() }
    }

    pub(super) fn write(self, value: u32) {
        // SAFETY: as in `read`.
        unsafe { (self.0 as *mut u32).write_volatile(value) }
    }

    pub(super) fn read_half(self) -> u16 {
        // SAFETY: as in `read`.
        unsafe { (self.0 as *const u16).read_volatile() }
    }

    pub(super) fn write_half(self, value: u16) {
        // SAFETY: as in `read`.
        unsafe { (self.0 as *mut u16).write_volatile(value) }
    }

    pub(super) fn write_byte(self, value: u8) {
        // SAFETY: as in `read`.
        unsafe { (self.0 as *mut u8).write_volatile(value) }
    }

    pub(super) fn set(self, bits: u32) {
        self.write(self.read() | bits);
    }

    pub(super) fn clear(self, bits: u32) {
        self.write(self.read() & !bits);
    }

    /// Waits until any of these bits is set, and returns the register. If none ever is, the test's time runs out.
    pub(super) fn until(self, bits: u32) -> u32 {
        loop {
            let value = self.read();
            if value & bits != 0 {
                return value;
            }
        }
    }

    /// Waits until all of these bits are clear.
    pub(super) fn until_clear(self, bits: u32) {
        while self.read() & bits != 0 {}
    }
}

// The core (ARMv7-M, B3.2).
pub(super) const SYST_CSR: Reg = Reg(0xE000_E010);
pub(super) const SYST_RVR: Reg = Reg(0xE000_E014);
pub(super) const SYST_CVR: Reg = Reg(0xE000_E018);
pub(super) const NVIC_ISER: Reg = Reg(0xE000_E100);
pub(super) const NVIC_ISER1: Reg = Reg(0xE000_E104);
pub(super) const NVIC_ICER: Reg = Reg(0xE000_E180);
pub(super) const NVIC_ISPR: Reg = Reg(0xE000_E200);
pub(super) const NVIC_ICPR: Reg = Reg(0xE000_E280);
pub(super) const NVIC_IABR: Reg = Reg(0xE000_E300);
pub(super) const NVIC_IPR: Reg = Reg(0xE000_E400);
pub(super) const ICSR: Reg = Reg(0xE000_ED04);
pub(super) const VTOR: Reg = Reg(0xE000_ED08);
pub(super) const AIRCR: Reg = Reg(0xE000_ED0C);
pub(super) const SCR: Reg = Reg(0xE000_ED10);
pub(super) const SHPR3: Reg = Reg(0xE000_ED20);
pub(super) const SHCSR: Reg = Reg(0xE000_ED24);
pub(super) const CFSR: Reg = Reg(0xE000_ED28);
pub(super) const HFSR: Reg = Reg(0xE000_ED2C);
pub(super) const BFAR: Reg = Reg(0xE000_ED38);
pub(super) const FPCCR: Reg = Reg(0xE000_EF34);
pub(super) const FPCAR: Reg = Reg(0xE000_EF38);
pub(super) const DEMCR: Reg = Reg(0xE000_EDFC);
pub(super) const DWT_CTRL: Reg = Reg(0xE000_1000);
pub(super) const DWT_CYCCNT: Reg = Reg(0xE000_1004);

// The chip (RM0090, 2.3 and the register maps of the chapters).
pub(super) const TIM3_CR1: Reg = Reg(0x4000_0400);
pub(super) const TIM3_DIER: Reg = Reg(0x4000_040C);
pub(super) const TIM3_CCMR1: Reg = Reg(0x4000_0418);
pub(super) const TIM3_CCER: Reg = Reg(0x4000_0420);
pub(super) const TIM3_ARR: Reg = Reg(0x4000_042C);
pub(super) const TIM3_CCR2: Reg = Reg(0x4000_0438);
pub(super) const IWDG_KR: Reg = Reg(0x4000_3000);
pub(super) const IWDG_PR: Reg = Reg(0x4000_3004);
pub(super) const IWDG_RLR: Reg = Reg(0x4000_3008);
pub(super) const I2C1_CR1: Reg = Reg(0x4000_5400);
pub(super) const I2C1_CR2: Reg = Reg(0x4000_5404);
pub(super) const I2C1_DR: Reg = Reg(0x4000_5410);
pub(super) const I2C1_SR1: Reg = Reg(0x4000_5414);
pub(super) const I2C1_SR2: Reg = Reg(0x4000_5418);
pub(super) const I2C1_CCR: Reg = Reg(0x4000_541C);
pub(super) const I2C1_TRISE: Reg = Reg(0x4000_5420);
pub(super) const SDIO_POWER: Reg = Reg(0x4001_2C00);
pub(super) const SPI1_CR1: Reg = Reg(0x4001_3000);
pub(super) const SPI1_CR2: Reg = Reg(0x4001_3004);
pub(super) const SPI1_SR: Reg = Reg(0x4001_3008);
pub(super) const SPI1_DR: Reg = Reg(0x4001_300C);
pub(super) const SYSCFG_EXTICR1: Reg = Reg(0x4001_3808);
pub(super) const EXTI_IMR: Reg = Reg(0x4001_3C00);
pub(super) const EXTI_EMR: Reg = Reg(0x4001_3C04);
pub(super) const EXTI_RTSR: Reg = Reg(0x4001_3C08);
pub(super) const EXTI_FTSR: Reg = Reg(0x4001_3C0C);
pub(super) const EXTI_SWIER: Reg = Reg(0x4001_3C10);
pub(super) const EXTI_PR: Reg = Reg(0x4001_3C14);
pub(super) const GPIOA_MODER: Reg = Reg(0x4002_0000);
pub(super) const GPIOA_AFRL: Reg = Reg(0x4002_0020);
pub(super) const GPIOB_MODER: Reg = Reg(0x4002_0400);
pub(super) const GPIOB_OTYPER: Reg = Reg(0x4002_0404);
pub(super) const GPIOB_AFRL: Reg = Reg(0x4002_0420);
pub(super) const GPIOC_MODER: Reg = Reg(0x4002_0800);
pub(super) const GPIOC_IDR: Reg = Reg(0x4002_0810);
pub(super) const GPIOC_BSRR: Reg = Reg(0x4002_0818);
pub(super) const RCC_AHB1ENR: Reg = Reg(0x4002_3830);
pub(super) const RCC_APB1ENR: Reg = Reg(0x4002_3840);
pub(super) const RCC_APB2ENR: Reg = Reg(0x4002_3844);
pub(super) const RCC_CSR: Reg = Reg(0x4002_3874);
pub(super) const FLASH_KEYR: Reg = Reg(0x4002_3C04);
pub(super) const FLASH_SR: Reg = Reg(0x4002_3C0C);
pub(super) const FLASH_CR: Reg = Reg(0x4002_3C10);
pub(super) const DMA1_HISR: Reg = Reg(0x4002_6004);
pub(super) const DMA1_HIFCR: Reg = Reg(0x4002_600C);
pub(super) const DMA2_LISR: Reg = Reg(0x4002_6400);
pub(super) const DMA2_LIFCR: Reg = Reg(0x4002_6408);

/// Registers of a stream of DMA1, as of DMA2.
pub(super) fn dma1_stream(number: u32, register: u32) -> Reg {
    Reg(0x4002_6010 + 0x18 * number + 4 * register)
}

/// Registers of a stream of DMA2: CR, NDTR, PAR, M0AR, M1AR, FCR.
pub(super) fn dma2_stream(number: u32, register: u32) -> Reg {
    Reg(0x4002_6410 + 0x18 * number + 4 * register)
}
