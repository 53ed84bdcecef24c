//! Tables of contents and their cache: a drone's table changes only with its firmware.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use steady_common::crtp::Port;
use steady_common::crtp::toc::{Info, MAX_NAMES};

/// Maximum number of entries; the official firmware has some hundreds.
pub const MAX_ENTRIES: u16 = 8192;

/// One parameter or log variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub id: u16,
    /// Type byte; what it means depends on the port.
    pub kind: u8,
    /// Group.
    pub group: String,
    /// Name in the group.
    pub name: String,
}

impl Entry {
    /// `group.name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.group, self.name)
    }
}

/// Folder with tables by their checksum.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    folder: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    port: u8,
    crc: u32,
    entries: Vec<Entry>,
}

impl Cache {
    /// A cache in a folder, which is made when needed; `None` caches nothing.
    #[must_use]
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// The user's cache folder: `$XDG_CACHE_HOME/steady/toc`, or `~/.cache/steady/toc`.
    #[must_use]
    pub fn of_user() -> Self {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        Self { folder: base.map(|base| base.join("steady").join("toc")) }
    }

    /// The name consists of numbers only, whatever the drone sends.
    fn file(&self, port: Port, info: Info) -> Option<PathBuf> {
        let name = format!("{}-{:08x}-{}.json", port as u8, info.crc, info.count);
        Some(self.folder.as_ref()?.join(name))
    }

    /// The table, if it is cached and complete.
    #[must_use]
    pub fn load(&self, port: Port, info: Info) -> Option<Vec<Entry>> {
        let text = fs::read_to_string(self.file(port, info)?).ok()?;
        let kept: Kept = serde_json::from_str(&text).ok()?;
        let is_right = kept.port == port as u8
            && kept.crc == info.crc
            && kept.entries.len() == usize::from(info.count)
            && kept
                .entries
                .iter()
                .enumerate()
                .all(|(n, e)| usize::from(e.id) == n && e.group.len() + e.name.len() + 2 <= MAX_NAMES);
        is_right.then_some(kept.entries)
    }

    /// Caches a table. Errors are ignored: the next connection only takes longer.
    pub fn save(&self, port: Port, info: Info, entries: &[Entry]) {
        let Some(file) = self.file(port, info) else { return };
        let kept = Kept { port: port as u8, crc: info.crc, entries: entries.to_vec() };
        let Ok(text) = serde_json::to_string(&kept) else { return };
        let draft = file.with_extension(format!("{}.part", std::process::id()));
        let _ = file
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&draft, text))
            .and_then(|()| fs::rename(&draft, &file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_kept_by_their_checksum_and_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path().join("a/b")));
        let entry = |id, name: &str| Entry { id, kind: 8, group: "g".to_owned(), name: name.to_owned() };
        let info = Info { count: 2, crc: 0xABCD };
        assert_eq!(cache.load(Port::Param, info), None);
        let entries = vec![entry(0, "x"), entry(1, "../../y")];
        cache.save(Port::Param, info, &entries);
        assert_eq!(cache.load(Port::Param, info), Some(entries.clone()));
        assert_eq!(cache.load(Port::Log, info), None);
        assert_eq!(cache.load(Port::Param, Info { crc: 1, ..info }), None);
        assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1);
        cache.save(Port::Param, info, &entries[..1]);
        assert_eq!(cache.load(Port::Param, info), None, "one is missing");
        fs::write(cache.file(Port::Param, info).unwrap(), b"{").unwrap();
        assert_eq!(cache.load(Port::Param, info), None, "torn");
    }
}
