//! Tables that fit the terminal.

use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width};

use super::text::plain;

/// The space between columns.
const GAP: u16 = 2;
/// Columns up to this wide are never broken, wider ones not below it.
const UNBROKEN: u16 = 12;
/// What is narrower than this is no width to lay a table out in.
const NARROWEST: u16 = 20;

/// Lays out a table with a header. The first column, which names a row, is never broken; a column in which nobody
/// has anything to say is left out.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let rows: Vec<_> = rows.into_iter().map(Vec::from).collect();
    columns(&header.map(str::to_owned), &rows)
}

/// Lays out a table whose columns are known only when the program runs; every row has as many cells as the header.
pub(crate) fn columns(header: &[String], rows: &[Vec<String>]) -> String {
    let said: Vec<_> = (0..header.len())
        .filter(|column| *column == 0 || rows.iter().any(|row| !row[*column].is_empty()))
        .collect();
    let mut table = bare();
    table.set_header(said.iter().map(|column| header[*column].to_uppercase()));
    for row in rows {
        table.add_row(said.iter().map(|column| plain(&row[*column])));
    }
    finish(table)
}

/// Lays out names and their values, one a line.
pub(crate) fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut table = bare();
    for (name, value) in facts {
        table.add_row([name.to_owned(), plain(&value)]);
    }
    finish(table)
}

fn bare() -> Table {
    let mut table = Table::new();
    // Off a terminal there is no width to fit unless somebody says so, and no line is broken.
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = said_width(std::env::var("COLUMNS").ok().as_deref()) {
        table.set_width(width);
    }
    table
}

/// The width that COLUMNS says. Shells do not export it by themselves: who sets it means it.
fn said_width(columns: Option<&str>) -> Option<u16> {
    columns?.trim().parse().ok().filter(|width| *width >= NARROWEST)
}

fn finish(mut table: Table) -> String {
    let widths = table.column_max_content_widths();
    for ((at, width), column) in widths.into_iter().enumerate().zip(table.column_iter_mut()) {
        column.set_padding((0, GAP));
        column.set_constraint(if at == 0 || width <= UNBROKEN {
            ColumnConstraint::ContentWidth
        } else {
            ColumnConstraint::LowerBoundary(Width::Fixed(UNBROKEN + GAP))
        });
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_is_a_number_of_some_size() {
        assert_eq!(said_width(Some("80")), Some(80));
        for none in [None, Some(""), Some("0"), Some("wide"), Some("-1"), Some("99999999")] {
            assert_eq!(said_width(none), None, "{none:?}");
        }
    }

    #[test]
    fn tables_are_plain_columns() {
        let rows = [["a".to_owned(), "1".to_owned()], ["long name".to_owned(), "x\u{1b}[2Jy".to_owned()]];
        assert_eq!(table(["queue", "jobs"], rows), "QUEUE      JOBS\na          1\nlong name  x\u{fffd}[2Jy");
        let silent = [["a".to_owned(), String::new(), "1".to_owned()]];
        assert_eq!(table(["id", "error", "jobs"], silent), "ID  JOBS\na   1");
        assert_eq!(facts([("id", "7".to_owned()), ("status", "ok".to_owned())]), "id      7\nstatus  ok");
    }
}
