//! Length limits of texts, in Unicode characters unless stated otherwise (D6, D21a).

/// Names and titles.
pub const NAME: usize = 200;
/// Destination, company, change summary.
pub const LINE: usize = 500;
/// URLs of pages in the marketing block, with their query parameters.
pub const PAGE: usize = 2_000;
/// Budget notes.
pub const NOTES: usize = 2_000;
/// A customer's message.
pub const MESSAGE: usize = 10_000;
/// The caller's own ids of persons and leads.
pub const EXTERNAL_ID: usize = 200;
/// A phone as sent.
pub const PHONE: usize = 40;
/// An email as sent.
pub const EMAIL: usize = 320;
/// `eventId`, `tenant`, `origin`.
pub const ENVELOPE_ID: usize = 100;
/// `bookingRef`, also of requests by advisors.
pub const BOOKING_REF: usize = 100;
/// Travel dates as free text.
pub const DATES: usize = 200;
/// Maximum number of items in the list of a traveler's destinations, or of the constraints.
pub const LIST_ITEMS: usize = 50;
/// An object of a traveler's profile, in bytes of JSON.
pub const PROFILE_BYTES: usize = 64 * 1024;
/// An itinerary snapshot, in bytes of JSON.
pub const ITINERARY_BYTES: usize = 256 * 1024;

/// Whether `text` has at most `max` characters. Counts them only if the byte length does not decide it.
pub fn fits(text: &str, max: usize) -> bool {
    text.len() <= max || text.chars().count() <= max
}
