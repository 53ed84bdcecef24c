//! Writes logs in the format of the firmware.

use std::io::{self, Write};

use steady_common::gains_record::{self, GainsRecord};
use steady_common::inputs_record::{self, Inputs};
use steady_common::transition::Transition;
use steady_common::usdlog::{FILE_CRC, write};

/// Writes a log of control steps and gains.
pub struct Writer<W> {
    out: W,
    crc: crc::Digest<'static, u32>,
}

impl<W> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(out: W) -> io::Result<Self> {
        Self::begin(out, false)
    }

    /// Writes the header of a log that has the estimator's inputs too.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn with_inputs(out: W) -> io::Result<Self> {
        Self::begin(out, true)
    }

    fn begin(out: W, has_inputs: bool) -> io::Result<Self> {
        let mut header = Vec::new();
        let mut sink = |bytes: &[u8]| header.extend_from_slice(bytes);
        write::begin(&mut sink, if has_inputs { 2 + inputs_record::EVENTS } else { 2 });
        write::transition_event(&mut sink);
        gains_record::event(&mut sink);
        if has_inputs {
            inputs_record::events(&mut sink);
        }
        let mut writer = Self { out, crc: FILE_CRC.digest() };
        writer.put(&header)?;
        Ok(writer)
    }

    /// Appends the gains that fly from now on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn gains(&mut self, gains: &GainsRecord) -> io::Result<()> {
        self.put(&gains.encode())
    }

    /// Appends what the estimator was given.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn inputs(&mut self, inputs: &Inputs) -> io::Result<()> {
        let mut result = Ok(());
        inputs.encode(|bytes| {
            if result.is_ok() {
                result = self.put(bytes);
            }
        });
        result
    }

    /// Appends a control step.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn step(&mut self, step: &Transition) -> io::Result<()> {
        self.put(&step.encode())
    }

    /// Writes the checksum; the log is complete.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        let crc = self.crc.clone().finalize();
        self.put(&crc.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        self.out.write_all(bytes)
    }
}
