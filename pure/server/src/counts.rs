//! How many there are of each key, in maps that keep none that is 0.

use std::collections::BTreeMap;

/// One less of this key. Tells whether there was one.
pub(crate) fn one_less<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) -> bool {
    let Some(count) = counts.get_mut(key) else { return false };
    assert!(*count > 0, "a count of none is kept");
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::one_less;

    #[test]
    fn what_is_none_is_not_kept() {
        let mut counts = BTreeMap::from([('a', 2), ('b', 1)]);
        assert!(one_less(&mut counts, &'a') && one_less(&mut counts, &'b'));
        assert!(!one_less(&mut counts, &'b') && !one_less(&mut counts, &'c'));
        assert_eq!(counts, BTreeMap::from([('a', 1)]));
    }
}
