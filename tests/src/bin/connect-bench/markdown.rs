//! Markdown tables that are readable on a terminal as well.

/// A Markdown table with aligned columns; the first column is text, the others are figures.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or_default().max(3)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.iter().enumerate().map(|(column, &width)| {
        if column == 0 { "-".repeat(width) } else { format!("{}:", "-".repeat(width - 1)) }
    });
    let rule = rule.collect::<Vec<_>>();
    let mut text = line(&mut head.iter().copied());
    text.push_str(&line(&mut rule.iter().map(String::as_str)));
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn aligns_columns() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "1,000".to_owned()]];
        let expected = "| of   |   n/s |\n| ---- | ----: |\n| a    |     1 |\n| long | 1,000 |\n";
        assert_eq!(table(&["of", "n/s"], &rows), expected);
    }
}
