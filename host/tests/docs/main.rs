//! The tables in `docs/` that come from the code: byte layouts, log columns, codes, parameters, crates.
//!
//! Each is a section between two marks. A test makes it anew and compares; with `STEADY_WRITE_DOCS=1` it
//! writes it instead. So the documentation cannot drift from what the program does.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod codes;
mod crates;
mod formats;
mod parameters;

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Compares a section of a page with what it should be.
fn section(page: &str, name: &str, expected: &str) {
    let path = root().join("docs").join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (begin, end) =
        (format!("<!-- begin {name}, made by host/tests/docs -->\n"), format!("<!-- end {name} -->"));
    let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{page} has no section {name}"));
    let (found, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{page}: section {name} has no end"));
    if std::env::var_os("STEADY_WRITE_DOCS").is_some() {
        fs::write(&path, format!("{before}{begin}{expected}{end}{after}")).unwrap();
    } else {
        assert!(
            found == expected,
            "docs/{page}, section {name}, is not what the code says; \
             `STEADY_WRITE_DOCS=1 cargo test -p steady --test docs -- --test-threads 1` writes it\n{expected}"
        );
    }
}

/// A table in Markdown.
struct Table(String);

impl Table {
    fn new(headings: &[&str]) -> Self {
        Self(format!("| {} |\n|{}\n", headings.join(" | "), "---|".repeat(headings.len())))
    }

    fn row(&mut self, cells: &[&dyn Display]) {
        let cells: Vec<String> = cells.iter().map(|cell| cell.to_string().replace('|', "\\|")).collect();
        self.0 += &format!("| {} |\n", cells.join(" | "));
    }
}

#[test]
fn links_lead_somewhere() {
    let docs = root().join("docs");
    let mut pages: Vec<PathBuf> = fs::read_dir(&docs).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for page in &pages {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(readme.contains(&format!("(docs/{name})")), "README.md does not lead to docs/{name}");
    }
    pages.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name)));
    for folder in fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()) {
        let notes = ["README.md", "tests/data/README.md"].map(|name| folder.join(name));
        pages.extend(notes.into_iter().filter(|page| page.is_file()));
        assert!(
            !folder.join("Cargo.toml").is_file() || folder.join("README.md").is_file(),
            "{} has no README.md",
            folder.display()
        );
    }
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap();
            if !file.is_empty() && !file.contains("://") {
                assert!(page.parent().unwrap().join(file).exists(), "{}: {link}", page.display());
            }
        }
    }
}
