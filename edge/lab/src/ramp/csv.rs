//! A ramp as comma-separated values: a line for each second of the machine.

use std::fmt::Write as _;

use super::result::RampResult;

/// The table with its head line. Power is modelled unless the result says that it was measured.
#[must_use]
pub fn csv(result: &RampResult) -> String {
    let mut out = String::from("time_s,step,servers,cpu_percent,steal_percent,watts\n");
    for it in &result.series {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{:.3},{},{},{:.2},{:.2},{:.3}",
            it.at_s, it.step, it.servers, it.cpu_percent, it.steal_percent, it.watts
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::result::{RampResult, Second};
    use super::csv;

    #[test]
    fn a_second_is_a_line() {
        let second =
            Second { at_s: 1.5, step: 2, servers: 4, cpu_percent: 50.0, ..Second::default() };
        let result = RampResult { series: vec![second], ..RampResult::default() };
        assert_eq!(csv(&result).lines().nth(1), Some("1.500,2,4,50.00,0.00,0.000"));
    }
}
