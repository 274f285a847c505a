//! Counts of kinds on top of one another, a column for each stretch of time.

use std::fmt::Write as _;

use super::{Axis, Dress, Shade, Tell, frame, hover, legend, open, px, py, shade};

/// One column.
pub(crate) struct Stack {
    pub(crate) from: f64,
    pub(crate) until: f64,
    /// By kind, in the order of their names.
    pub(crate) values: Vec<f64>,
}

/// Columns over time.
pub(crate) struct Columns<'a> {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) x_name: &'static str,
    /// Name and colour of each kind.
    pub(crate) kinds: Vec<(String, usize)>,
    pub(crate) stacks: Vec<Stack>,
    pub(crate) shades: Vec<Shade>,
    /// Places and values as they stand at the pointer.
    pub(crate) tell: (&'a Tell<'a>, &'a Tell<'a>),
}

impl Columns<'_> {
    /// The chart with its legend, which names every kind: one alone has a name too.
    pub(crate) fn svg(&self) -> String {
        let mut out = open();
        shade(&mut out, &self.x, &self.shades);
        frame(&mut out, &self.x, &self.y, self.x_name);
        for stack in &self.stacks {
            let (left, right) = (px(&self.x, stack.from), px(&self.x, stack.until));
            let mut below = 0.0;
            for (value, (_, colour)) in stack.values.iter().zip(&self.kinds) {
                let (top, floor) = (py(&self.y, below + value), py(&self.y, below));
                below += value;
                if *value > 0.0 {
                    // Writing to a String cannot fail.
                    let _ = write!(
                        out,
                        "<rect class=\"column\" style=\"fill:var(--s{colour})\" x=\"{left:.1}\" \
                         y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                        (right - left - 0.6).max(0.8),
                        (floor - top).max(0.8),
                    );
                }
            }
        }
        out.push_str("</svg>");
        self.strips(&mut out);
        out.push_str("</div>");
        let named = self
            .kinds
            .iter()
            .map(|(name, colour)| (name.as_str(), Dress { colour: *colour, dash: 0 }));
        legend(&mut out, &named.collect::<Vec<_>>(), !self.shades.is_empty());
        out
    }

    fn strips(&self, out: &mut String) {
        let (tell_x, tell_y) = self.tell;
        out.push_str(&hover::open());
        for stack in &self.stacks {
            let told = stack.values.iter().zip(&self.kinds).filter(|(value, _)| **value > 0.0);
            let told = told.map(|(value, (name, colour))| (*colour, name.as_str(), tell_y(*value)));
            let told: Vec<_> = told.collect();
            hover::strip(out, &self.x, (stack.from, stack.until), &tell_x(stack.until), &told);
        }
        out.push_str("</div>");
    }
}
