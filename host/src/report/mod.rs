//! `steady report`: a loop or a comparison as one page that needs nothing else.
//!
//! [`data`] gathers what the page shows from the folder; `page.html`, `page.css` and `page.js` show it. The
//! data goes into the page as JSON in which nothing can end its element, and the page writes all of it as
//! text, so that names and texts from files cannot become markup.

pub mod data;
pub(crate) mod flight;

use std::path::Path;

use anyhow::Result;

use data::Data;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page of a folder.
pub fn page(folder: &Path) -> Result<String> {
    let data = Data::of(folder)?;
    // Only inside strings can these be in JSON, and there they may be written so.
    let json = serde_json::to_string(&data)?
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + json.len());
    let mut rest = PAGE;
    // One pass: what is put in is not looked through again.
    for (mark, content) in [("/*STYLE*/", STYLE), ("/*DATA*/", &json), ("/*SCRIPT*/", SCRIPT)] {
        let Some((before, after)) = rest.split_once(mark) else { continue };
        page.push_str(before);
        page.push_str(content);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}
