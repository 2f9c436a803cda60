// SPDX-License-Identifier: GPL-2.0

//! The plots of docs/results/performance.md: accesses by the number of events, groups or CPUs.

use anyhow::{anyhow, Result};
use plotters::prelude::*;
use std::fs;
use std::path::Path;

use super::figures::{Figures, Generation, Row};
use super::page::limit;

/// How the names of operations begin whose number of events varies.
pub const EVENTS: &str = "switch between two tasks, events each: ";

/// How the names of operations begin whose number of groups varies.
pub const GROUPS: &str = "switch between two tasks, groups of 2 events each: ";

/// How the names of operations begin whose number of CPUs varies.
pub const CPUS: &str = "disable and enable a group of 4 on each CPU, CPUs: ";

/// How the files begin.
const LICENCE: &str = "<!-- SPDX-License-Identifier: GPL-2.0 -->\n";

/// How the names of lines end that show the limit.
const LIMIT: &str = ": limit";

/// A plot.
pub struct Plot {
    pub file: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// How the names of its operations begin.
    operations: &'static str,
}

/// All plots.
pub const PLOTS: [Plot; 3] = [
    Plot {
        file: "events.svg",
        about: "Accesses of a switch by the number of events",
        operations: EVENTS,
    },
    Plot {
        file: "groups.svg",
        about: "Accesses of a switch by the number of groups",
        operations: GROUPS,
    },
    Plot {
        file: "cpus.svg",
        about: "Accesses of stopping and starting events of CPUs by their number",
        operations: CPUS,
    },
];

/// Draws all plots.
pub fn draw(figures: &Figures, folder: &Path) -> Result<()> {
    let generations = figures.generations()?;
    for plot in PLOTS {
        let mut svg = LICENCE.to_owned();
        let file = plot.file;
        draw_one(&generations, &plot, &mut svg).map_err(|error| anyhow!("{file}: {error}"))?;
        fs::write(folder.join(file), svg)?;
    }
    Ok(())
}

/// The points of the operations whose names begin like this: their number and accesses.
fn points(
    generation: &Generation,
    operations: &str,
    accesses: impl Fn(&Row) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let point = |row: &Row| {
        let number = row.operation.strip_prefix(operations)?.parse().ok()?;
        Some((number, accesses(row)?))
    };
    generation.rows.iter().filter_map(point).collect()
}

fn draw_one(
    generations: &[Generation],
    &Plot {
        about, operations, ..
    }: &Plot,
    svg: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let shown = generations.iter().filter(|it| {
        // One with global control, and one without.
        it.name.starts_with("Intel v4") || it.name.starts_with("AMD core")
    });
    let mut series = Vec::new();
    for generation in shown {
        let name = &generation.name;
        let in_tree = |row: &Row| row.in_tree.map(|cost| cost.accesses.value);
        let ours = |row: &Row| row.ours.map(|cost| cost.accesses.value);
        series.push((
            format!("{name}: in-tree"),
            points(generation, operations, in_tree),
        ));
        series.push((
            format!("{name}: rust_pmu"),
            points(generation, operations, ours),
        ));
        let limit = |row: &Row| limit(&row.operation, generation.has_global_control);
        let line = points(generation, operations, limit);
        series.push((format!("{name}{LIMIT}"), line));
    }
    let all = || series.iter().flat_map(|(_, points)| points);
    let widest = all().map(|(x, _)| *x).fold(1.0, f64::max);
    let highest = all().map(|(_, y)| *y).fold(1.0, f64::max);

    let area = SVGBackend::with_string(svg, (720, 400)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(about, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(35)
        .y_label_area_size(45)
        .build_cartesian_2d((1.0..widest).log_scale().base(2.0), 0.0..highest)?;
    chart
        .configure_mesh()
        .x_desc(operations.trim_end_matches(": "))
        .y_desc("accesses")
        .light_line_style(TRANSPARENT)
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_label_formatter(&|x| format!("{x:.0}"))
        .draw()?;
    for (i, (name, points)) in series.into_iter().enumerate() {
        let style = match name.ends_with(LIMIT) {
            true => BLACK.stroke_width(1),
            false => Palette99::pick(i).stroke_width(3),
        };
        chart
            .draw_series(LineSeries::new(points, style).point_size(3))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
    area.present()?;
    Ok(())
}
