use crate::protocol::{AcknowledgeType, ErrorCode};

use super::{AcknowledgementBatch, Session, ShareRequest};

/// The first version of both requests that can renew.
const FIRST_WITH_RENEW: i16 = 2;

/// The member id, or what is wrong with it. Any text of 1 to 36 characters is good since Kafka 4.2.
pub(crate) fn member_id(member_id: Option<&str>) -> Result<&str, &'static str> {
    match member_id {
        None => Err("is null"),
        Some("") => Err("is empty"),
        // Java counts UTF-16 units.
        Some(id) if id.encode_utf16().count() > 36 => Err("has more than 36 characters"),
        Some(id) => Ok(id),
    }
}

/// Whether a request fetches: a ShareFetch that neither only renews nor closes its session.
pub(crate) fn fetches(request: &impl ShareRequest, version: i16) -> bool {
    request.as_fetch().is_some() && !only_renews(request, version) && request.share_session_epoch() != -1
}

/// Whether the request has IsRenewAck, in a version that can carry it.
fn only_renews(request: &impl ShareRequest, version: i16) -> bool {
    request.is_renew_ack() && version >= FIRST_WITH_RENEW
}

/// A size that is not 0 although the request renews, by name.
pub(super) fn size_with_renew(request: &impl ShareRequest, version: i16) -> Option<(&'static str, i32)> {
    let fetch = request.as_fetch().filter(|fetch| only_renews(*fetch, version))?;
    [
        ("max_bytes", fetch.max_bytes),
        ("min_bytes", fetch.min_bytes),
        ("max_records", fetch.max_records),
        ("max_wait_ms", fetch.max_wait_ms),
    ]
    .into_iter()
    .find(|&(_, value)| value != 0)
}

/// Whether a broker takes a request for its session: the code that it answers with when not, and why.
///
/// | epoch | ShareFetch | ShareAcknowledge |
/// |---|---|---|
/// | 0 | opens a session, in place of an old one; with acknowledgements `INVALID_REQUEST`, and an old one stays | `INVALID_SHARE_SESSION_EPOCH` |
/// | -1 | closes the session | the same |
/// | others | must be the next epoch of the session, else `INVALID_SHARE_SESSION_EPOCH` | the same |
///
/// But for epoch 0, `SHARE_SESSION_NOT_FOUND` without a session. A new session above the limit is
/// `SHARE_SESSION_LIMIT_REACHED`, which a broker answers only after MaxWaitMs. A request that is refused leaves the
/// session as it was. All measured.
///
/// # Errors
///
/// The broker does not take the request.
pub fn session_epoch<R: ShareRequest>(request: &R, session: Session) -> Result<(), (ErrorCode, String)> {
    match (request.share_session_epoch(), session) {
        (0, _) if request.as_fetch().is_none() => {
            Err((ErrorCode::INVALID_SHARE_SESSION_EPOCH, "0, but only ShareFetch opens a session".into()))
        }
        (0, _) if request.has_acknowledgements() => Err((
            ErrorCode::INVALID_REQUEST,
            "0, which opens a session, but there are acknowledgements".into(),
        )),
        (0, Session::LimitReached) => Err((
            ErrorCode::SHARE_SESSION_LIMIT_REACHED,
            "0, but there is no room for another session".into(),
        )),
        (0, _) | (_, Session::Unknown) | (-1, Session::Open(_)) => Ok(()),
        (epoch, Session::Absent | Session::LimitReached) => {
            Err((ErrorCode::SHARE_SESSION_NOT_FOUND, format!("{epoch}, but there is no session")))
        }
        (epoch, Session::Open(next)) if epoch == next => Ok(()),
        (epoch, Session::Open(next)) => {
            Err((ErrorCode::INVALID_SHARE_SESSION_EPOCH, format!("{epoch}, the session is at {next}")))
        }
    }
}

/// Why a broker does not take the acknowledgement batches of a partition: the first rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchError {
    /// The index of the batch.
    pub batch: usize,
    /// Its field, such as `acknowledge_types[3]`.
    pub field: String,
    /// What is wrong there.
    pub message: String,
}

impl BatchError {
    /// The field from the partition on, such as `acknowledgement_batches[1].last_offset`.
    pub fn path(&self) -> String {
        format!("acknowledgement_batches[{}].{}", self.batch, self.field)
    }
}

/// Whether a broker takes the acknowledgement batches of a partition, before it looks at the state of any record.
///
/// For each batch, in this order (measured):
///
/// 1. the first offset is not above the last,
/// 2. nor below the last offset of the batch before; the first batch may start at -1. A batch that starts **at** that
///    last offset is taken here, and fails later unless the batch before renews that offset;
/// 3. there is a type,
/// 4. that is, one for all offsets or one for each;
/// 5. it is 0 to 3, or in version 2 also 4, renew,
/// 6. which needs IsRenewAck. IsRenewAck does not need a renewal.
///
/// # Errors
///
/// The first rule that a batch breaks. A broker then applies nothing of the partition, renewals included, and answers
/// `INVALID_REQUEST` for it.
pub fn batches<'a>(
    batches: impl IntoIterator<Item = AcknowledgementBatch<'a>>,
    version: i16,
    is_renew_ack: bool,
) -> Result<(), BatchError> {
    let mut previous = -1;
    for (index, batch) in batches.into_iter().enumerate() {
        shape(&batch, previous, version, is_renew_ack).map_err(|(field, message)| BatchError {
            batch: index,
            field,
            message,
        })?;
        previous = batch.last_offset;
    }
    Ok(())
}

/// What is wrong with a batch behind one that ends at `previous`.
fn shape(
    batch: &AcknowledgementBatch<'_>,
    previous: i64,
    version: i16,
    is_renew_ack: bool,
) -> Result<(), (String, String)> {
    let &AcknowledgementBatch { first_offset, last_offset, acknowledge_types } = batch;
    if first_offset > last_offset {
        return Err((
            "last_offset".into(),
            format!("{last_offset} is below the first offset {first_offset}"),
        ));
    }
    if first_offset < previous {
        let message = format!("{first_offset} is below {previous}, the last offset of the batch before");
        return Err(("first_offset".into(), message));
    }
    // In i128, as the range may be all of int64.
    let offsets = i128::from(last_offset) - i128::from(first_offset) + 1;
    let types = acknowledge_types.len();
    if types != 1 && types as i128 != offsets {
        let message = format!("{types} types for {offsets} offsets, allowed are one or one for each");
        return Err(("acknowledge_types".into(), message));
    }
    for (index, &ty) in acknowledge_types.iter().enumerate() {
        acknowledge_type(ty, version, is_renew_ack)
            .map_err(|message| (format!("acknowledge_types[{index}]"), message))?;
    }
    Ok(())
}

fn acknowledge_type(ty: AcknowledgeType, version: i16, is_renew_ack: bool) -> Result<(), String> {
    match ty.name() {
        None => Err(format!("{} is no acknowledge type", ty.0)),
        Some(name) if ty == AcknowledgeType::RENEW && version < FIRST_WITH_RENEW => {
            Err(format!("{name} is not in version {version} (versions {FIRST_WITH_RENEW}+)"))
        }
        Some(name) if ty == AcknowledgeType::RENEW && !is_renew_ack => {
            Err(format!("{name}, but is_renew_ack is not set"))
        }
        Some(_) => Ok(()),
    }
}
