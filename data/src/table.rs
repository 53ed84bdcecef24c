//! Tables in Markdown.

use std::fmt;

/// A table in Markdown; columns of numbers are aligned right.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows yet.
    pub fn new(headings: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut table = Self { rows: Vec::new() };
        table.row(headings);
        table
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_number =
            |cell: &str| cell.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_ascii_digit());
        let columns: Vec<(usize, bool)> = (0..self.rows.first().map_or(0, Vec::len))
            .map(|column| {
                let cells = || self.rows.iter().filter_map(|row| row.get(column));
                let width = cells().map(|cell| cell.chars().count()).max().unwrap_or(0).max(3);
                let has_values = cells().skip(1).any(|cell| is_number(cell));
                (width, has_values && cells().skip(1).all(|c| c.is_empty() || c == "–" || is_number(c)))
            })
            .collect();
        for (number, row) in self.rows.iter().enumerate() {
            for (cell, (width, is_right)) in row.iter().zip(&columns) {
                if *is_right {
                    write!(f, "| {cell:>width$} ")?
                } else {
                    write!(f, "| {cell:<width$} ")?
                };
            }
            writeln!(f, "|")?;
            if number == 0 {
                for (width, is_right) in &columns {
                    write!(f, "|{:-<1$}{2}", "", width + 1, if *is_right { ':' } else { '-' })?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_right() {
        let mut table = Table::new(["world", "error", "note"]);
        table.row(["paper", "-1.25 ± 0.5", "3 flights"]);
        table.row(["nominal".to_owned(), "–".to_owned(), "none".to_owned()]);
        assert_eq!(
            table.to_string(),
            "| world   |       error | note      |\n\
             |---------|------------:|-----------|\n\
             | paper   | -1.25 ± 0.5 | 3 flights |\n\
             | nominal |           – | none      |\n"
        );
    }
}
