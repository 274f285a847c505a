//! `cron_next` and `cron_prev`: when a schedule is due, in UTC.
//!
//! Five fields (minute, hour, day of month, month, day of week), six with a year behind, seven
//! with seconds in front; `*`, lists, ranges, steps, English names of months and days, and
//! `@hourly` to `@yearly`. As usual, a day counts if either of day of month and day of week fits,
//! when both are given. Not here: `L`, `W` and `#`, which are refused.
//!
//! Source: the expressions that nakama 3.40 accepts (its `cronexpr`).

use super::system::days_from_civil;
use super::{Args, Returns, one};
use crate::guest::{Host, HostError};
use crate::value::Value;

const DAY_S: i64 = 86_400;

/// Days looked at for a match: a schedule's years end with 2099.
const DAYS_MAX: i64 = 48_000;

const YEARS: (u32, u32) = (1970, 2099);

pub(super) fn cron_next(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    due(args, Schedule::next)
}

pub(super) fn cron_prev(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    due(args, Schedule::prev)
}

fn due(args: &Args<'_>, search: fn(&Schedule, i64) -> Option<i64>) -> Result<Returns, HostError> {
    let text = args.filled_text(0, "expects cron string")?;
    let unix_s = args.int(1)?;
    if unix_s == 0 {
        return Err(args.wrong(0, "expects timestamp in seconds"));
    }
    let schedule =
        Schedule::parse(&text).ok_or_else(|| args.wrong(0, "expects a valid cron string"))?;
    let found = search(&schedule, unix_s.clamp(-(1 << 40), 1 << 40));
    found.map_or_else(
        || Err(HostError::new("the cron expression is never due")),
        |unix_s| one(Value::Int(unix_s)),
    )
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
        let (year, month, day_of_month) = civil_from_days(day);
        let weekday = (day + 4).rem_euclid(7);
        let by_date = self.days.has(day_of_month);
        let by_weekday = self.weekdays.has(weekday);
        let fits = if self.days.restricts && self.weekdays.restricts {
            by_date || by_weekday
        } else {
            by_date && by_weekday
        };
        let in_years = |(first, last, step): &(u32, u32, u32)| {
            u32::try_from(year)
                .is_ok_and(|y| (*first..=*last).contains(&y) && (y - first).is_multiple_of(*step))
        };
        fits && self.months.has(month) && self.years.iter().any(in_years)
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

/// Year, month and day of the Gregorian calendar, from days since 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // A guess that is right or one too small, for the average year has 365.2425 days.
    let mut year = 1970 + (days * 10_000 - 9_999).div_euclid(3_652_425);
    while days_from_civil(year + 1, 1, 1) <= days {
        year += 1;
    }
    let day_of_year = days - days_from_civil(year, 1, 1);
    let mut month = 1 + day_of_year / 32;
    while month < 12 && days_from_civil(year, month + 1, 1) <= days {
        month += 1;
    }
    (year, month, days - days_from_civil(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::{Schedule, civil_from_days};
    use crate::host::system::days_from_civil;

    #[test]
    fn dates_go_there_and_back() {
        let mut last = civil_from_days(-30_001);
        for days in -30_000..60_000 {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
            assert!((1..=12).contains(&month) && (1..=31).contains(&day));
            assert!((year, month, day) > last);
            last = (year, month, day);
        }
    }

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
