//! Whether two samples come from the same distribution: the Mann-Whitney U test, with correction for ties and the normal
//! approximation, which samples of thousands allow. It assumes nothing of the distributions and is not misled by
//! outliers, as a comparison of means is. Pure.

/// The result of the test for two samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankTest {
    /// Probability that a value of the first is greater than one of the second, equal ones counted half. 0.5: no difference.
    pub(crate) superiority: f64,
    /// Probability of such a difference, or a larger one, if there is none (two-sided).
    pub(crate) p: f64,
}

impl RankTest {
    /// Compares two samples that are not empty.
    pub(crate) fn of(first: &[f64], second: &[f64]) -> Self {
        let mut all: Vec<(f64, bool)> = first.iter().map(|value| (*value, true)).collect();
        all.extend(second.iter().map(|value| (*value, false)));
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (mut rank_sum, mut ties) = (0.0, 0.0);
        let mut below = 0.0;
        for equal in all.chunk_by(|a, b| a.0 == b.0) {
            let count = equal.len() as f64;
            let of_first = equal.iter().filter(|(_, is_first)| *is_first).count() as f64;
            rank_sum += of_first * (below + f64::midpoint(1.0, count));
            ties += count * count * count - count;
            below += count;
        }
        let (n, m) = (first.len() as f64, second.len() as f64);
        let u = rank_sum - n * (n + 1.0) / 2.0;
        let all = n + m;
        let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
        let z = (u - n * m / 2.0) / variance.sqrt();
        // All values are equal: there is no variance, and no difference.
        let p = if variance > 0.0 { two_sided(z) } else { 1.0 };
        Self { superiority: u / (n * m), p }
    }

    /// Sample size at which a test detects this difference with a power of 90 % at a level of 5 % (Noether).
    pub(crate) fn needed(&self) -> f64 {
        let distance = self.superiority - 0.5;
        (1.96_f64 + 1.2816).powi(2) / (6.0 * distance * distance)
    }
}

/// Probability of a standard normal value as far from 0 as `z`, or farther.
fn two_sided(z: f64) -> f64 {
    // Abramowitz and Stegun 7.1.26, for the complement of the error function; off by less than 1.5e-7.
    const A: [f64; 5] = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / 0.327_591_1_f64.mul_add(x, 1.0);
    let polynomial = A.iter().rev().fold(0.0, |sum, a| (sum + a) * t);
    polynomial * (-x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_probabilities_are_those_of_the_tables() {
        for (z, expected) in [(0.0, 1.0), (1.0, 0.317_311), (1.959_964, 0.05), (-2.575_829, 0.01)] {
            let p = two_sided(z);
            assert!((p - expected).abs() < 1e-5, "{z}: {p}");
        }
    }

    #[test]
    fn small_samples_are_compared_as_by_hand() {
        // Of the nine pairs the first wins two and ties one.
        let test = RankTest::of(&[1.0, 3.0, 5.0], &[2.0, 5.0, 6.0]);
        assert!((test.superiority - 2.5 / 9.0).abs() < 1e-12, "{test:?}");
        let same = RankTest::of(&[1.0, 1.0], &[1.0, 1.0]);
        assert!(same.superiority == 0.5 && same.p == 1.0, "{same:?}");
    }

    #[test]
    fn a_shift_is_seen_and_equal_samples_are_not_told_apart() {
        let even: Vec<f64> = (0..2_000).map(|i| f64::from(i * 2)).collect();
        let odd: Vec<f64> = (0..2_000).map(|i| f64::from(i * 2 + 1)).collect();
        let shifted: Vec<f64> = even.iter().map(|value| value + 400.0).collect();
        assert!(RankTest::of(&even, &odd).p > 0.9);
        let shift = RankTest::of(&shifted, &even);
        assert!(shift.p < 1e-6 && shift.superiority > 0.58, "{shift:?}");
        assert!((150.0..250.0).contains(&shift.needed()), "{}", shift.needed());
    }
}
