//! What became of the live frames of one bus.

/// Counts of the live plane since the bus was made.
///
/// Every frame offered to a subscription is in exactly one place, so at any time
/// `offered = delivered + dropped + superseded + waiting`. No count ever goes down but `waiting`
/// and `subscriptions`, and none can go below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LiveStats {
    /// Frames that publishers handed in, whoever heard them.
    pub published: u64,
    /// Frames that matched a subscription, once for each.
    pub offered: u64,
    /// Frames that subscribers took.
    pub delivered: u64,
    /// Frames that went because a subscriber was too slow, or ended before it took them.
    pub dropped: u64,
    /// Frames that a newer one of their subject replaced under `Overflow::Latest`.
    pub superseded: u64,
    /// Frames that subscribers may still take.
    pub waiting: u64,
    /// Subscriptions that are held now.
    pub subscriptions: u64,
}
