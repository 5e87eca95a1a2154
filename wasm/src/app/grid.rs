//! What is on screen as lanes and cells, for those who cannot see it.

use spanlift::program::Region;

use super::App;
use crate::rows::Track;
use crate::timeline::RULER;
use crate::{lifetimes, lod, text};

/// Cells of a lane at most.
const CELLS: usize = 60;

/// The lanes on screen; one has its slices, and those of memory have their buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Which lane has its slices, of which time, and how many more there are.
    pub caption: String,
    /// The lanes from top to bottom.
    pub lanes: Vec<GridLane>,
}

/// A lane of a [`Grid`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridLane {
    /// What it is called.
    pub name: String,
    /// What is on it, and whether that is selected.
    pub cells: Vec<(String, bool)>,
}

impl App {
    /// The lanes on screen with the slices of the selected one's lane, or of the first lane; of many those around the selected slice.
    ///
    /// # Cost
    /// That of drawing a lane.
    pub fn grid(&self) -> Grid {
        let (model, range) = (&self.model, self.on_screen());
        let at = self.row_at(None).unwrap_or(0);
        let (cells, left) = self.cells(at);
        let left = if left > 0 { format!(", without {}", text::count(left, "other")) } else { String::new() };
        let called = |row| model.rows.called(row);
        // Without any lane that is said: what stands there is of another item.
        let caption = format!("{}, {range}{left}", called(at).as_deref().unwrap_or("no lane"));
        let is_shown = |row: &usize| {
            let (top, height) = self.frame.row(*row);
            *row == at || RULER < top + height - self.scroll && top - self.scroll < self.size.1
        };
        let mut cells = Some(cells);
        let lanes = (0..model.rows.rows.len()).filter(is_shown).map(|row| {
            let own = if row == at { cells.take() } else { None };
            let mut cells = own.unwrap_or_default();
            cells.extend(self.held(row));
            // Silence says less.
            if row == at && cells.is_empty() {
                cells.push(("nothing here".to_owned(), false));
            }
            GridLane { name: called(row).unwrap_or_default(), cells }
        });
        let mut lanes: Vec<GridLane> = lanes.collect();
        // A grid without a row is none to a screen reader.
        if lanes.is_empty() {
            lanes.push(GridLane { name: String::new(), cells: vec![("nothing here".to_owned(), false)] });
        }
        Grid { caption, lanes }
    }

    /// The slices of a lane that are on screen, in order of time, and how many are left out.
    fn cells(&self, row: usize) -> (Vec<(String, bool)>, usize) {
        let (view, trace) = (self.view(), &self.model.trace);
        let is_selected =
            |track: &Track, piece: &lod::Piece| self.selected().is_some_and(|k| piece.holds(trace, track, k));
        let mut pieces: Vec<(lod::Piece, bool)> = Vec::new();
        for track in self.model.rows.rows.get(row).iter().flat_map(|row| &row.tracks) {
            let drawn = lod::pieces(trace, track, &view).into_iter();
            pieces.extend(drawn.map(|piece| (piece, is_selected(track, &piece))));
        }
        pieces.sort_by_key(|(piece, _)| trace.slices.start[piece.face as usize]);
        let selected = pieces.iter().position(|&(_, is_selected)| is_selected);
        let left = pieces.len().saturating_sub(CELLS);
        let first = selected.map_or(0, |at| at.saturating_sub(CELLS / 2)).min(left);
        let told = |&(piece, is_selected): &(lod::Piece, bool)| {
            // Of those drawn as one the selected slice is told, if it is there.
            let told = self.selected().filter(|_| is_selected).unwrap_or(piece.face);
            (self.model.piece(&piece, told), is_selected)
        };
        (pieces.iter().skip(first).take(CELLS).map(told).collect(), left)
    }

    /// The buffers of a place, and whether the selected command touches them.
    fn held(&self, row: usize) -> Vec<(String, bool)> {
        let model = &self.model;
        let touched = self.selected_command().and_then(|c| model.trace.program.as_ref()?.commands().get(c));
        let row = &model.rows.rows[row];
        let told = |block: &lifetimes::Block| {
            let here = |(region, _): &(&Region, bool)| region.buffer == block.buffer;
            let is_touched = touched.is_some_and(|command| lifetimes::touched(&command.op).iter().any(here));
            let told = block.told(&model.trace, &model.rows);
            (format!("{} on {}, {told}", block.name, row.name), is_touched)
        };
        row.memory.iter().flat_map(|place| &place.blocks).take(CELLS).map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::scene::{Of, Shape};
    use crate::testing::{Random, crowd};
    use crate::theme::Theme;

    /// Beside the picture itself: its lanes are the grid's, and every rectangle on the lane of the selected slice is a cell.
    #[test]
    fn the_grid_has_the_lanes_and_slices_that_are_drawn() {
        let mut n_whole = 0;
        for seed in 0..30 {
            let mut random = Random(seed);
            let mut app = App::new(Model::new("crowd", crowd(seed, 300)), Theme::LIGHT);
            app.resize(900.0, 200.0 + random.below(300) as f64);
            let slice = u32::try_from(random.below(300)).unwrap();
            app.select(Some(slice));
            app.set_scroll(random.below(400) as f64);
            let (row, _) = app.model.rows.place(slice);
            let scene = app.scene();
            let grid = app.grid();
            let names: Vec<&str> = grid.lanes.iter().map(|lane| &*lane.name).collect();
            let mut n_drawn = 0;
            for shape in &scene.shapes {
                let Shape::Rect(rect) = shape else { continue };
                let middle = rect.y + rect.h / 2.0;
                if rect.of == Of::Nothing || middle < RULER || app.size.1 < middle {
                    continue;
                }
                let at = app.row_at(Some(middle)).unwrap();
                n_drawn += usize::from(at == row as usize);
                let name = app.model.rows.called(at).unwrap();
                assert!(names.contains(&&*name), "seed {seed}: {name} is no lane of {names:?}");
            }
            let height = |row: &usize| app.frame.row(*row).0 - app.scroll;
            let all = 0..app.model.rows.rows.len();
            let beyond = all.filter(|r| app.size.1 <= height(r) && *r != row as usize).count();
            assert!(
                grid.lanes.len() + beyond <= app.model.rows.rows.len(),
                "seed {seed}: what is below is none"
            );
            let own: Vec<&GridLane> = grid.lanes.iter().filter(|lane| !lane.cells.is_empty()).collect();
            assert_eq!(own.len(), 1, "seed {seed}: one lane has slices");
            assert_eq!(own[0].name, app.model.rows.called(row as usize).unwrap());
            assert_eq!(own[0].cells.iter().filter(|(_, is_selected)| *is_selected).count(), 1, "seed {seed}");
            let (top, height) = app.frame.row(row as usize);
            if RULER <= top - app.scroll && top + height - app.scroll <= app.size.1 {
                n_whole += 1;
                assert_eq!(own[0].cells.len(), n_drawn.min(CELLS), "seed {seed}");
            }
        }
        assert!(n_whole > 5, "only {n_whole} of the lanes are whole on screen");
    }
}
