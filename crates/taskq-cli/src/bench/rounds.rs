//! Interleaved repeats: the drift of a busy machine meets all cases alike.

use crate::exit::Failure;

/// How often each case is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    /// Rounds whose figures are thrown away.
    pub(super) warm_up: u32,
    /// Rounds that count; at least 1.
    pub(super) measured: u32,
}

/// Runs every case once a round, forwards in one round and backwards in the next. Returns, for each case, what its
/// measured rounds gave, in the order of the rounds.
pub(super) async fn interleave<C, S>(
    rounds: Rounds,
    cases: &[C],
    mut run: impl AsyncFnMut(&C, bool) -> Result<S, Failure>,
) -> Result<Vec<Vec<S>>, Failure> {
    let mut samples: Vec<Vec<S>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds.warm_up + rounds.measured {
        let warm_up = round < rounds.warm_up;
        for step in 0..cases.len() {
            let case = if round.is_multiple_of(2) { step } else { cases.len() - 1 - step };
            let sample = run(&cases[case], warm_up).await?;
            if !warm_up {
                samples[case].push(sample);
            }
        }
    }
    Ok(samples)
}

/// Returns the middle of some figures, of an even number the mean of both middle ones; 0 of none.
pub(super) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => figures[odd / 2],
        even => f64::midpoint(figures[even / 2 - 1], figures[even / 2]),
    }
}

/// What a case did per second, in each of its rounds.
#[derive(Clone, Debug)]
pub(super) struct Rates(Vec<f64>);

impl Rates {
    /// Collects the rates of a case in the order of its rounds.
    pub(super) fn of(rates: impl IntoIterator<Item = f64>) -> Self {
        Self(rates.into_iter().collect())
    }

    /// Returns the rate of the fastest round.
    pub(super) fn best(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the rate of the middle round.
    pub(super) fn median(&self) -> f64 {
        median(self.0.iter().copied())
    }

    /// Divides the best by the best of another case.
    pub(super) fn ratio_to(&self, other: &Self) -> f64 {
        self.best() / other.best()
    }

    /// Divides what both did in the same round; returns the middle of the ratios.
    pub(super) fn median_ratio_to(&self, other: &Self) -> f64 {
        median(self.0.iter().zip(&other.0).map(|(of, to)| of / to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rounds_alternate_their_order_and_drop_the_warm_up() {
        let mut order = Vec::new();
        let rounds = Rounds { warm_up: 1, measured: 2 };
        let samples = interleave(rounds, &['a', 'b'], async |case, warm_up| {
            order.push((*case, warm_up));
            Ok(order.len())
        });
        assert_eq!(samples.await.unwrap(), [[4, 5], [3, 6]]);
        assert_eq!(order, [('a', true), ('b', true), ('b', false), ('a', false), ('a', false), ('b', false)]);
    }

    #[test]
    fn the_middle_of_figures() {
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median([4.0, 1.0]) - 2.5).abs() < f64::EPSILON);
        assert!((median([]) - 0.0).abs() < f64::EPSILON);
    }

    #[test]
    fn rates_are_compared_by_the_best_and_round_by_round() {
        let (of, to) = (Rates::of([1.0, 4.0, 9.0]), Rates::of([2.0, 2.0, 3.0]));
        assert!((of.ratio_to(&to) - 3.0).abs() < f64::EPSILON);
        assert!((of.median_ratio_to(&to) - 2.0).abs() < f64::EPSILON);
        assert!((of.median() - 4.0).abs() < f64::EPSILON);
    }
}
