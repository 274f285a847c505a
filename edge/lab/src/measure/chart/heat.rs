//! Where values lie, and how many: cells that are the darker the more are in them.

use std::fmt::Write as _;

use super::{Axis, Shade, Tell, frame, legend, open, px, py, shade};
use crate::measure::text::escape;

/// A heat map.
pub(crate) struct HeatMap<'a> {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) x_name: &'static str,
    /// x from, x until, y from, y until, how many.
    pub(crate) cells: Vec<[f64; 5]>,
    /// What they are many of, behind the number; empty for things.
    pub(crate) unit: &'static str,
    pub(crate) shades: Vec<Shade>,
    /// Places and values as they stand at the pointer.
    pub(crate) tell: (&'a Tell<'a>, &'a Tell<'a>),
}

impl HeatMap<'_> {
    pub(crate) fn svg(&self) -> String {
        let mut out = open();
        let most = self.cells.iter().map(|cell| cell[4]).fold(1.0, f64::max);
        let (px, py) = (|at| px(&self.x, at), |at| py(&self.y, at));
        let (tell_x, tell_y) = self.tell;
        shade(&mut out, &self.x, &self.shades);
        for [x_from, x_until, y_from, y_until, count] in &self.cells {
            let (x, y) = (px(*x_from), py(*y_until));
            let (width, height) = (px(*x_until) - x, py(*y_from) - y);
            // The logarithm keeps the few slow ones visible beside the many fast ones.
            let strength = 0.12 + 0.88 * (1.0 + count).ln() / (1.0 + most).ln();
            let _ = write!(
                out,
                "<rect class=\"heat\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill-opacity=\"{strength:.2}\"><title>{}</title></rect>",
                (width + 0.3).max(0.5),
                (height + 0.3).max(0.5),
                escape(&format!(
                    "{}: {count:.0}{} of {} to {}",
                    tell_x(*x_until),
                    self.unit,
                    tell_y(*y_from),
                    tell_y(*y_until)
                )),
            );
        }
        frame(&mut out, &self.x, &self.y, self.x_name);
        out.push_str("</svg></div>");
        legend(&mut out, &[], !self.shades.is_empty());
        out
    }
}
