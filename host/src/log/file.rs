//! One log file: its header, and its records in one pass.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use steady_common::usdlog::{
    Header, HeaderError, Layout, LayoutError, Record, Scanner, SchemaError, Summary, Type, Value,
};
use thiserror::Error;

use super::columns;

/// Read at once.
const CHUNK: usize = 1 << 20;
/// A header that has not ended here is damage.
const MAX_HEADER: usize = 1 << 20;
/// First look at a file.
const FIRST_LOOK: usize = 16 << 10;

/// Why a log cannot be read. The texts name the file.
// The causes are not `source`s: they are part of the text, and would be printed twice.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the text of each variant says it")]
pub enum LogError {
    #[error("{file}: cannot be read: {error}")]
    Read { file: String, error: std::io::Error },
    #[error("{file}: is empty: the power was cut before anything was written; there is nothing to save")]
    Empty { file: String },
    #[error("{file}: {error}; give files from the root folder of the drone's card, such as log00")]
    Header { file: String, error: HeaderError },
    #[error("{file}: {error}: the header is damaged, so the records cannot be told apart")]
    Layout { file: String, error: LayoutError },
    #[error("{file}: {error}; `steady log export` still writes its records as tables")]
    Schema { file: String, error: SchemaError },
    #[error("{folder}: holds no log; give the card's root folder, or files such as log00")]
    NoLogs { folder: String },
}

/// What a log can be read from.
pub trait Source: Read + Seek {}
impl<T: Read + Seek> Source for T {}

/// One variable of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name in the log.
    pub name: String,
    /// Type in a record.
    pub kind: Type,
    /// First byte in a record's values.
    pub offset: usize,
    /// Unit; empty where there is none or it is not known.
    pub unit: &'static str,
}

impl Variable {
    /// The name of its column in a table: with the unit.
    #[must_use]
    pub fn column(&self) -> String {
        columns::column_name(&self.name, self.unit)
    }

    /// Its value in a record's values; nothing only if the record were not its event's.
    #[must_use]
    pub fn read(&self, values: &[u8]) -> Option<Value> {
        self.kind.read(values.get(self.offset..)?)
    }
}

/// One kind of record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its id in records.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Its variables in the order of the record.
    pub variables: Vec<Variable>,
}

impl Event {
    /// The variable of this name.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|v| v.name == name)
    }
}

/// A log, opened: its header is good.
pub struct Log<S> {
    name: String,
    source: S,
    size: u64,
    version: u16,
    header: Vec<u8>,
    layout: Layout,
    events: Vec<Event>,
}

impl<S> std::fmt::Debug for Log<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("name", &self.name).field("size", &self.size).finish_non_exhaustive()
    }
}

impl Log<File> {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read, or does not begin as a log does.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::new(name, file),
            Err(error) => Err(LogError::Read { file: name, error }),
        }
    }
}

impl<S: Source> Log<S> {
    /// Takes anything with bytes; `name` names it in messages.
    ///
    /// # Errors
    /// If it cannot be read, or does not begin as a log does.
    pub fn new(name: String, mut source: S) -> Result<Self, LogError> {
        let (size, bytes) =
            beginning(&mut source).map_err(|error| LogError::Read { file: name.clone(), error })?;
        if size == 0 {
            return Err(LogError::Empty { file: name });
        }
        let header = Header::parse(&bytes).map_err(|error| LogError::Header { file: name.clone(), error })?;
        let layout = Layout::new(&header).map_err(|error| LogError::Layout { file: name.clone(), error })?;
        let events = header.events().map(|event| own(&event)).collect();
        let version = header.version();
        let header = bytes.get(..header.length()).unwrap_or(&bytes).to_vec();
        Ok(Self { name, source, size, version, header, layout, events })
    }

    /// What it is called in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Version of the format.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The kinds of records it has.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Makes a decoder for one of our events from the header.
    pub(super) fn decoder<D>(
        &self,
        make: impl FnOnce(&Header<'_>) -> Result<Option<D>, SchemaError>,
    ) -> Result<Option<D>, LogError> {
        let file = || self.name.clone();
        let header = Header::parse(&self.header).map_err(|error| LogError::Header { file: file(), error })?;
        make(&header).map_err(|error| LogError::Schema { file: file(), error })
    }

    /// Gives every record in the order of the file, and what was found in all. May be called again.
    ///
    /// # Errors
    /// If the file cannot be read to its end.
    pub fn scan(&mut self, mut each: impl FnMut(&Record<'_>)) -> Result<Summary, LogError> {
        self.try_scan(|record| {
            each(record);
            Ok::<(), LogError>(())
        })
    }

    /// As [`scan`](Self::scan), and ends with the first error of `each`.
    ///
    /// # Errors
    /// If the file cannot be read to its end, or what `each` reports.
    pub fn try_scan<E: From<LogError>>(
        &mut self,
        mut each: impl FnMut(&Record<'_>) -> Result<(), E>,
    ) -> Result<Summary, E> {
        let mut scanner = Scanner::new(self.layout, &self.header);
        let mut failed = None;
        let wrong = |error| LogError::Read { file: self.name.clone(), error };
        self.source.seek(SeekFrom::Start(self.header.len() as u64)).map_err(wrong)?;
        let mut buffer = vec![0; CHUNK];
        let mut filled = 0;
        loop {
            let room = buffer.get_mut(filled..).unwrap_or_default();
            let count = match self.source.read(room) {
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(LogError::Read { file: self.name.clone(), error }.into()),
            };
            filled += count;
            let bytes = buffer.get(..filled).unwrap_or_default();
            let mut take = |record: Record<'_>| {
                if failed.is_none() {
                    failed = each(&record).err();
                }
            };
            if count == 0 {
                let summary = scanner.finish(bytes, take);
                return failed.map_or(Ok(summary), Err);
            }
            // What the scanner leaves is shorter than two records, and those than the buffer.
            let done = scanner.push(bytes, &mut take);
            if let Some(error) = failed {
                return Err(error);
            }
            buffer.copy_within(done..filled, 0);
            filled -= done;
        }
    }
}

/// The size and the first bytes: enough to hold the header, if there is one.
fn beginning(source: &mut impl Source) -> std::io::Result<(u64, Vec<u8>)> {
    let size = source.seek(SeekFrom::End(0))?;
    let mut length = FIRST_LOOK;
    loop {
        let mut bytes = Vec::new();
        source.seek(SeekFrom::Start(0))?;
        source.by_ref().take(length as u64).read_to_end(&mut bytes)?;
        let ends_here = (bytes.len() as u64) >= size || length >= MAX_HEADER;
        if ends_here || !matches!(Header::parse(&bytes), Err(HeaderError::Incomplete)) {
            return Ok((size, bytes));
        }
        length *= 4;
    }
}

/// An event of a header, with units.
fn own(event: &steady_common::usdlog::Event<'_>) -> Event {
    let variable = |v: steady_common::usdlog::Variable<'_>| Variable {
        name: v.name.to_owned(),
        kind: v.kind,
        offset: v.offset,
        unit: columns::unit(event.name, v.name),
    };
    Event { id: event.id, name: event.name.to_owned(), variables: event.variables().map(variable).collect() }
}
