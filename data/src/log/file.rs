//! One log file: its header, and its records in one pass.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use steady_common::usdlog::{
    Header, HeaderError, Layout, LayoutError, Record, Scanner, SchemaError, Summary, Type, Value,
};
use thiserror::Error;

use super::columns;

/// Bytes read at once.
const CHUNK: usize = 1 << 20;
/// A longer header is damaged, bytes.
const MAX_HEADER: usize = 1 << 20;
/// Bytes that are read first; almost every header is shorter.
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

trait Source: Read + Seek {}
impl<T: Read + Seek> Source for T {}

/// One variable of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name in the header, as `group.name`.
    pub name: String,
    /// Type in the record.
    pub kind: Type,
    /// First byte in a record's values.
    pub offset: usize,
    /// Empty if it has none or it is not known.
    pub unit: &'static str,
}

impl Variable {
    /// The name of its column in a table: with the unit.
    pub fn column(&self) -> String {
        columns::column_name(&self.name, self.unit)
    }

    /// Its value in a record's values; `None` only for a record of another event.
    pub fn read(&self, values: &[u8]) -> Option<Value> {
        self.kind.read(values.get(self.offset..)?)
    }
}

/// One kind of record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Name in the header.
    pub name: String,
    /// In the order of the record.
    pub variables: Vec<Variable>,
}

/// An open log with a valid header.
pub struct Log {
    name: String,
    source: Box<dyn Source>,
    size: u64,
    version: u16,
    header: Vec<u8>,
    layout: Layout,
    events: Vec<Event>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("name", &self.name).field("size", &self.size).finish_non_exhaustive()
    }
}

impl Log {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read, or its header is not a log's.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::new(name, file),
            Err(error) => Err(LogError::Read { file: name, error }),
        }
    }

    /// Opens anything that can be read; `name` is for messages.
    ///
    /// # Errors
    /// If it cannot be read, or its header is not a log's.
    pub fn new(name: String, mut source: impl Read + Seek + 'static) -> Result<Self, LogError> {
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
        Ok(Self { name, source: Box::new(source), size, version, header, layout, events })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Version of the file format.
    pub(super) fn version(&self) -> u16 {
        self.version
    }

    /// The kinds of records that the header announces.
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

    /// Calls `each` with every record in the order of the file. May be called again.
    ///
    /// # Errors
    /// If the file cannot be read to its end.
    pub fn scan(&mut self, mut each: impl FnMut(&Record<'_>)) -> Result<Summary, LogError> {
        self.try_scan(|record| {
            each(record);
            Ok::<(), LogError>(())
        })
    }

    /// As [`scan`](Self::scan), but stops at the first error of `each`.
    pub(super) fn try_scan<E: From<LogError>>(
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
            // The scanner leaves less than two records, which are shorter than the buffer.
            let done = scanner.push(bytes, &mut take);
            if let Some(error) = failed {
                return Err(error);
            }
            buffer.copy_within(done..filled, 0);
            filled -= done;
        }
    }
}

/// The size of the file and its first bytes, with the whole header if there is one.
fn beginning(source: &mut (impl Read + Seek)) -> std::io::Result<(u64, Vec<u8>)> {
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

fn own(event: &steady_common::usdlog::Event<'_>) -> Event {
    let variable = |v: steady_common::usdlog::Variable<'_>| Variable {
        name: v.name.to_owned(),
        kind: v.kind,
        offset: v.offset,
        unit: columns::unit(event.name, v.name),
    };
    Event { name: event.name.to_owned(), variables: event.variables().map(variable).collect() }
}
