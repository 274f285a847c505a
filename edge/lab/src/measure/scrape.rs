//! What a server says of itself at `/metrics`, in Prometheus's text format.
//!
//! In: an address. Out: numbers by name, added up over their labels; a histogram's counts by the ends of its
//! buckets. Names are looked up without the prefix that a server may put before all of them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// How long the page may take: it is read once a second, between other things.
const WAIT: Duration = Duration::from_millis(300);
/// Bytes of a page, at most.
const PAGE_BYTES_MAX: u64 = 4 << 20;

/// One reading of the page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrape {
    /// By name.
    values: BTreeMap<String, f64>,
    /// By name, without `_bucket`: ends of buckets in the page's unit, and how many are up to there.
    buckets: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Scrape {
    /// Reads the page at `host:port`; none if it does not come.
    pub(crate) fn read(address: &str) -> Option<Self> {
        Some(Self::parse(&page(address, "/metrics")?))
    }

    /// Reads lines `name{label="value",…} number`; all others say nothing.
    fn parse(page: &str) -> Self {
        let mut scrape = Self::default();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some((head, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = head.split_once('{').unwrap_or((head, ""));
            let Some(of) = name.strip_suffix("_bucket") else {
                *scrape.values.entry(name.to_owned()).or_default() += value;
                continue;
            };
            let end = labels.split_once("le=\"").and_then(|(_, rest)| rest.split_once('"'));
            let end = end.map_or(f64::INFINITY, |(end, _)| end.parse().unwrap_or(f64::INFINITY));
            let buckets = scrape.buckets.entry(of.to_owned()).or_default();
            match buckets.iter_mut().find(|(known, _)| known.total_cmp(&end).is_eq()) {
                Some((_, count)) => *count += value,
                None => buckets.push((end, value)),
            }
        }
        scrape
    }

    /// A number; 0 if the page has none of this name.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts")]
    pub(crate) fn count(&self, name: &str) -> u64 {
        find(&self.values, name).map_or(0, |value| value.max(0.0) as u64)
    }

    /// The end of the first bucket up to which so large a share of what has come since `before` lies, in
    /// the page's unit; none if nothing came, or beyond the last end.
    pub(crate) fn quantile_since(&self, before: &Self, name: &str, share: f64) -> Option<f64> {
        let since = |buckets: Option<&Vec<(f64, f64)>>, place: usize| {
            buckets.and_then(|it| it.get(place)).map_or(0.0, |(_, count)| *count)
        };
        let (now, old) = (find(&self.buckets, name)?, find(&before.buckets, name));
        let counts: Vec<(f64, f64)> =
            (0..now.len()).map(|place| (now[place].0, now[place].1 - since(old, place))).collect();
        let all = counts.last()?.1;
        let (end, _) = counts.iter().find(|(_, count)| all > 0.0 && *count >= all * share)?;
        end.is_finite().then_some(*end)
    }
}

/// A page of the metrics port at `host:port`, with its head; none if it does not come.
pub(crate) fn page(address: &str, path: &str) -> Option<String> {
    let address = address.parse().ok()?;
    let mut stream = TcpStream::connect_timeout(&address, WAIT).ok()?;
    stream.set_read_timeout(Some(WAIT)).ok()?;
    stream.set_write_timeout(Some(WAIT)).ok()?;
    let ask = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).ok()?;
    let mut page = Vec::new();
    stream.take(PAGE_BYTES_MAX).read_to_end(&mut page).ok()?;
    Some(String::from_utf8_lossy(&page).into_owned())
}

/// By its name, or by that behind a prefix.
fn find<'a, V>(map: &'a BTreeMap<String, V>, name: &str) -> Option<&'a V> {
    let behind = |known: &str| known.strip_suffix(name).is_some_and(|it| it.ends_with('_'));
    map.get(name).or_else(|| map.iter().find(|(known, _)| behind(known)).map(|(_, value)| value))
}

#[cfg(test)]
mod tests {
    use super::Scrape;

    const PAGE: &str = "HTTP/1.1 200 OK\r\n\r\n# HELP x y\nnakama_zone_ticks{node=\"a\",kind=\"room\"} 40\n\
        nakama_zone_ticks{node=\"b\"} 2\nlate_bucket{le=\"0.001\"} 90\nlate_bucket{le=\"0.005\"} 99\n\
        late_bucket{le=\"+Inf\"} 100\nlate_sum 3\nbroken\n";

    #[test]
    fn numbers_are_found_behind_any_prefix_and_added_up() {
        let scrape = Scrape::parse(PAGE);
        assert_eq!((scrape.count("zone_ticks"), scrape.count("ticks_none")), (42, 0));
    }

    #[test]
    fn quantiles_are_of_what_came_since() {
        let (before, now) = (Scrape::default(), Scrape::parse(PAGE));
        let of = |share| now.quantile_since(&before, "late", share);
        assert_eq!([of(0.5), of(0.95), of(0.999)], [Some(0.001), Some(0.005), None]);
        assert_eq!(now.quantile_since(&now, "late", 0.5), None);
    }
}
