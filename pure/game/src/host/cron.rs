//! `cron_next` and `cron_prev`: when a schedule is due, in UTC.
//!
//! Five fields (minute, hour, day of month, month, day of week), six with a year behind, seven
//! with seconds in front; `*`, lists, ranges, steps, English names of months and days, and
//! `@hourly` to `@yearly`. As usual, a day counts if either of day of month and day of week fits,
//! when both are given. Not here: `L`, `W` and `#`, which are refused.
//!
//! Source: the expressions that nakama 3.40 accepts (its `cronexpr`).

use wire::date::day_from_number;

use super::Args;
use crate::guest::HostError;

const DAY_S: i64 = 86_400;

/// Days looked at for a match: a schedule's years end with 2099.
const DAYS_MAX: i64 = 48_000;

const YEARS: (u32, u32) = (1970, 2099);

/// When the schedule is due next after a time, unix seconds.
pub(super) fn next(args: &Args<'_>, schedule: &str, after_s: i64) -> Result<i64, HostError> {
    due(args, schedule, after_s, Schedule::next)
}

/// When the schedule was due last before a time, unix seconds.
pub(super) fn prev(args: &Args<'_>, schedule: &str, before_s: i64) -> Result<i64, HostError> {
    due(args, schedule, before_s, Schedule::prev)
}

fn due(
    args: &Args<'_>,
    schedule: &str,
    unix_s: i64,
    search: fn(&Schedule, i64) -> Option<i64>,
) -> Result<i64, HostError> {
    if unix_s == 0 {
        return Err(args.wrong(0, "expects timestamp in seconds"));
    }
    let schedule =
        Schedule::parse(schedule).ok_or_else(|| args.wrong(0, "expects a valid cron string"))?;
    let found = search(&schedule, unix_s.clamp(-(1 << 40), 1 << 40));
    found.ok_or_else(|| HostError::new("the cron expression is never due"))
}

/// Which values of a field fit, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    fits: u64,
    /// Whether it says anything but `*`.
    restricts: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Schedule {
    seconds: Field,
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
    years: Vec<(u32, u32, u32)>,
}

const MONTHS: &[&str] =
    &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    fn parse(text: &str) -> Option<Self> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        let mut fields: Vec<&str> = text.split_ascii_whitespace().collect();
        match fields.len() {
            5 => {
                fields.insert(0, "0");
                fields.push("*");
            }
            6 => fields.insert(0, "0"),
            7 => {}
            _ => return None,
        }
        let [seconds, minutes, hours, days, months, weekdays, years] = *fields.as_slice() else {
            return None;
        };
        let mut weekdays = Field::parse(weekdays, (0, 7), (WEEKDAYS, 0))?;
        // Sunday is 0 and 7.
        weekdays.fits |= weekdays.fits >> 7 & 1;
        Some(Self {
            seconds: Field::parse(seconds, (0, 59), (&[], 0))?,
            minutes: Field::parse(minutes, (0, 59), (&[], 0))?,
            hours: Field::parse(hours, (0, 23), (&[], 0))?,
            days: Field::parse(days, (1, 31), (&[], 0))?,
            months: Field::parse(months, (1, 12), (MONTHS, 1))?,
            weekdays,
            years: years
                .split(',')
                .map(|part| range(part, YEARS, (&[], 0)))
                .collect::<Option<_>>()?,
        })
    }

    fn next(&self, after_s: i64) -> Option<i64> {
        let first_day = after_s.div_euclid(DAY_S);
        (first_day..first_day + DAYS_MAX).filter(|day| self.fits_day(*day)).find_map(|day| {
            let after = after_s - day * DAY_S;
            self.times().find(|time| *time > after).map(|time| day * DAY_S + time)
        })
    }

    fn prev(&self, before_s: i64) -> Option<i64> {
        let last_day = before_s.div_euclid(DAY_S);
        let days = (last_day - DAYS_MAX..=last_day).rev();
        days.filter(|day| self.fits_day(*day)).find_map(|day| {
            let before = before_s - day * DAY_S;
            let last = self.times().take_while(|time| *time < before).last();
            last.map(|time| day * DAY_S + time)
        })
    }

    fn fits_day(&self, day: i64) -> bool {
        let date = day_from_number(day);
        let weekday = (day + 4).rem_euclid(7);
        let by_date = self.days.has(date.of_month.into());
        let by_weekday = self.weekdays.has(weekday);
        let fits = if self.days.restricts && self.weekdays.restricts {
            by_date || by_weekday
        } else {
            by_date && by_weekday
        };
        let in_years = |(first, last, step): &(u32, u32, u32)| {
            u32::try_from(date.year)
                .is_ok_and(|y| (*first..=*last).contains(&y) && (y - first).is_multiple_of(*step))
        };
        fits && self.months.has(date.month.into()) && self.years.iter().any(in_years)
    }

    /// The due seconds of a day, ascending.
    fn times(&self) -> impl Iterator<Item = i64> + '_ {
        let hours = (0..24).filter(|hour| self.hours.has(*hour));
        hours.flat_map(move |hour| {
            let minutes = (0..60).filter(|minute| self.minutes.has(*minute));
            minutes.flat_map(move |minute| {
                let seconds = (0..60).filter(|second| self.seconds.has(*second));
                seconds.map(move |second| hour * 3_600 + minute * 60 + second)
            })
        })
    }
}

impl Field {
    fn parse(text: &str, limits: (u32, u32), names: (&[&str], u32)) -> Option<Self> {
        let mut fits = 0;
        for part in text.split(',') {
            let (first, last, step) = range(part, limits, names)?;
            for value in (first..=last).step_by(usize::try_from(step).ok()?) {
                fits |= 1 << value;
            }
        }
        Some(Self { fits, restricts: text != "*" && text != "?" })
    }

    fn has(&self, value: i64) -> bool {
        (0..64).contains(&value) && self.fits >> value & 1 == 1
    }
}

/// `*`, `5`, `1-5`, each perhaps with `/2` behind: first, last, step.
fn range(part: &str, limits: (u32, u32), names: (&[&str], u32)) -> Option<(u32, u32, u32)> {
    let (span, step) = match part.split_once('/') {
        Some((span, step)) => (span, Some(step.parse::<u32>().ok().filter(|step| *step > 0)?)),
        None => (part, None),
    };
    let value = |text: &str| {
        let named = || {
            let name = text.to_ascii_lowercase();
            let at = names.0.iter().position(|known| *known == name)?;
            u32::try_from(at).ok().map(|at| at + names.1)
        };
        let value = text.parse::<u32>().ok().or_else(named)?;
        (limits.0..=limits.1).contains(&value).then_some(value)
    };
    let (first, last) = match span.split_once('-') {
        _ if span == "*" || span == "?" => limits,
        Some((first, last)) => (value(first)?, value(last)?),
        // `5/15` runs from 5 to the end.
        None => (value(span)?, if step.is_some() { limits.1 } else { value(span)? }),
    };
    (first <= last).then_some((first, last, step.unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    #[test]
    fn schedules_are_due_before_and_after() {
        // 2023-11-14T22:13:20Z, a Tuesday.
        let now = 1_700_000_000;
        for (text, prev, next) in [
            ("* * * * *", 1_699_999_980, 1_700_000_040),
            ("0 * * * *", 1_699_999_200, 1_700_002_800),
            ("@daily", 1_699_920_000, 1_700_006_400),
            ("0 0 1 * *", 1_698_796_800, 1_701_388_800),
            ("0 0 * * MON", 1_699_833_600, 1_700_438_400),
            ("0 0 * * 7", 1_699_747_200, 1_700_352_000),
            ("*/15 22 * * *", 1_699_999_200, 1_700_000_100),
            ("0 0 13 * 5", 1_699_833_600, 1_700_179_200),
            ("0 0 29 2 *", 1_582_934_400, 1_709_164_800),
            ("30 0 0 1 jan * 2025-2030/2", i64::MIN, 1_735_689_630),
            ("*/20 * * * * * *", 1_699_999_980, 1_700_000_020),
        ] {
            let schedule = Schedule::parse(text).unwrap();
            assert_eq!(schedule.next(now), Some(next), "{text}");
            assert_eq!(schedule.prev(now).unwrap_or(i64::MIN), prev, "{text}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused_and_impossible_ones_end() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "x * * * *",
            "*/0 * * * *",
            "5-1 * * * *",
            "* * L * *",
            "* * * * * * * *",
            "1, * * * *",
            "- * * * *",
            "99999999999 * * * *",
        ] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
        let never = Schedule::parse("0 0 31 2 *").unwrap();
        assert_eq!((never.next(1), never.prev(1 << 40)), (None, None));
    }
}
