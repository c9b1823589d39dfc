use std::collections::HashSet;

use crate::messages::ShareFetchRequest;
use crate::protocol::ErrorCode;

use super::{Level, Listing, Refusal, ShareRequest, Stateless, validate};

/// What a sender should not send: all that a broker [refuses](validate()) without knowing more than the request, and,
/// if there is nothing of that, what a broker takes, drops or stumbles over.
///
/// | advice | because |
/// |---|---|
/// | the group id is not empty | a broker takes it, but no group has it |
/// | a batch starts above the last offset of the one before, and not below 0 | the offset that is in both fails by its state; below the start offset a broker ignores everything |
/// | a partition is listed once, and a topic too | a broker applies the last listing of a partition only, and says nothing |
/// | ShareAcquireMode is 0 or 1, and 0 in version 1 | `UNKNOWN_SERVER_ERROR` from a 4.4.0 broker, with the epoch used up; version 1 drops it |
/// | IsRenewAck only with a renewal, and never in version 1 | a broker fetches nothing then; version 1 cannot carry it |
/// | no renewal at epoch -1 | the session's end releases the records |
/// | MaxRecords, MaxBytes and BatchSize are above 0 in a fetch that is none of these two | a broker acquires nothing, or in the smallest ranges |
///
/// A fetch that only synchronises a session, with all four sizes 0, is good. The codes are those that a broker
/// answers, [`NONE`](ErrorCode::NONE) where it takes the request.
pub fn check<R: ShareRequest>(request: &R, version: i16) -> Vec<Refusal> {
    let mut refusals = validate(request, version, &Stateless);
    if !refusals.is_empty() {
        return refusals;
    }
    let mut advise = |level, path: String, message: String| {
        refusals.push(Refusal::new(ErrorCode::NONE, level, path, message));
    };
    if request.group_id() == Some("") {
        advise(Level::Top, "group_id".into(), "empty".into());
    }
    let has_renew = request.listings().any(|listing| listing.batches.iter().any(|batch| batch.has_renew()));
    if request.is_renew_ack() && version < 2 {
        advise(Level::Top, "is_renew_ack".into(), format!("not in version {version} (versions 2+)"));
    } else if request.is_renew_ack() && !has_renew {
        advise(Level::Top, "is_renew_ack".into(), "set, but nothing is renewed".into());
    }
    if has_renew && request.share_session_epoch() == -1 {
        let message = "-1 releases the records that are renewed";
        advise(Level::Top, "share_session_epoch".into(), message.into());
    }
    listed_once(request, &mut advise);
    for listing in request.listings() {
        ascending(&listing, &mut advise);
    }
    if let Some(fetch) = request.as_fetch() {
        refusals.extend(fetching(fetch, version));
    }
    refusals
}

/// Topics and partitions that are listed again.
fn listed_once<R: ShareRequest>(request: &R, advise: &mut impl FnMut(Level, String, String)) {
    let (mut topics, mut partitions) = (HashSet::new(), HashSet::new());
    let mut topic = None;
    for listing in request.listings() {
        let (place, id) = (listing.place.0, listing.partition.topic_id);
        if topic != Some(place) && !topics.insert(id) {
            let path = format!("topics[{place}].topic_id");
            advise(Level::Top, path, format!("{id} is listed twice"));
        }
        topic = Some(place);
        if !partitions.insert(listing.partition) {
            let level = if listing.batches.is_empty() {
                Level::Partition(listing.partition)
            } else {
                listing.acknowledge_level()
            };
            advise(level, listing.path(), format!("{} is listed twice", listing.partition));
        }
    }
}

/// Batches that share an offset, or start below 0.
fn ascending(listing: &Listing<'_>, advise: &mut impl FnMut(Level, String, String)) {
    let mut previous = -1;
    for (index, batch) in listing.batches.iter().enumerate() {
        if batch.first_offset <= previous {
            let path = format!("{}.acknowledgement_batches[{index}].first_offset", listing.path());
            let message = match index {
                0 => format!("{} is no offset", batch.first_offset),
                _ => format!("{previous} is in the batch before too"),
            };
            advise(listing.acknowledge_level(), path, message);
        }
        previous = batch.last_offset;
    }
}

/// Fields of a fetch that a broker does not check.
fn fetching(fetch: &ShareFetchRequest, version: i16) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let mut advise = |code, path: &str, message: String| {
        refusals.push(Refusal::new(code, Level::Top, path, message));
    };
    match fetch.share_acquire_mode {
        0 => {}
        1 if version >= 2 => {}
        1 => advise(ErrorCode::NONE, "share_acquire_mode", "1 is dropped in version 1 (versions 2+)".into()),
        mode => {
            advise(
                ErrorCode::UNKNOWN_SERVER_ERROR,
                "share_acquire_mode",
                format!("{mode} is no mode (0 or 1)"),
            );
        }
    }
    let sizes = [fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes, fetch.max_records];
    if fetch.share_session_epoch == -1 || sizes == [0; 4] {
        return refusals;
    }
    let sizes = [
        ("max_bytes", fetch.max_bytes, "nothing is acquired"),
        ("max_records", fetch.max_records, "nothing is acquired"),
        ("batch_size", fetch.batch_size, "the ranges are then as small as they can be"),
    ];
    for (path, value, so) in sizes {
        if value <= 0 {
            advise(ErrorCode::NONE, path, format!("{value}: {so}"));
        }
    }
    refusals
}
