//! `steady report`: a loop or a comparison as one page that needs nothing else.
//!
//! [`data`] gathers what the page shows from the folder; `page.html`, `page.css` and `page.js` show it. The
//! data is embedded as escaped JSON and shown as text, so that nothing from files can become markup.

pub mod data;
pub(crate) mod flight;

use std::path::Path;

use anyhow::Result;

use data::Data;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub fn page(folder: &Path) -> Result<String> {
    let data = Data::of(folder)?;
    // In JSON these occur only inside strings, where they can be escaped.
    let json = serde_json::to_string(&data)?
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + json.len());
    let mut rest = PAGE;
    // One pass: inserted text is not searched again.
    for (mark, content) in [("/*STYLE*/", STYLE), ("/*DATA*/", &json), ("/*SCRIPT*/", SCRIPT)] {
        let Some((before, after)) = rest.split_once(mark) else { continue };
        page.push_str(before);
        page.push_str(content);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}
