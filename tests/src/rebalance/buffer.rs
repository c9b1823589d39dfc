//! The poll that returns records, and the buffer that they come from.

use std::time::Duration;

use kafka_protocol::messages::ConsumerGroupHeartbeatResponse;
use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::rebalance::{ConsumerRecords, Fetch, RecordBuffer, Request};

use super::desk::{Desk, consumer, cooperative, eager, owned, partition};

const SECOND: Duration = Duration::from_secs(1);

/// Records are their offsets. The group has committed offset 10 of each partition.
type Buffer = RecordBuffer<i64>;

/// What would be fetched: indexes of partitions, and offsets.
fn fetches(desk: &Desk, buffer: &Buffer) -> Vec<(i32, i64)> {
    buffer.fetches(&desk.member).iter().map(|fetch| (fetch.partition.partition, fetch.offset)).collect()
}

fn fetch(desk: &Desk, buffer: &Buffer, index: i32) -> Fetch {
    let found = buffer.fetches(&desk.member).into_iter().find(|fetch| fetch.partition == partition(index));
    found.unwrap_or_else(|| panic!("partition {index} is not to be fetched"))
}

/// The leader has so many records.
fn answer(buffer: &mut Buffer, fetch: &Fetch, count: i64) -> bool {
    let end = fetch.offset + count;
    buffer.fetched(fetch, fetch.offset..end, end)
}

fn poll(desk: &mut Desk, buffer: &mut Buffer) -> ConsumerRecords<i64> {
    desk.poll_records(buffer, usize::MAX)
}

/// A member that has these partitions, and so many records of each of them wait.
fn full(partitions: &[i32], count: i64) -> (Desk, Buffer) {
    let mut desk = Desk::joined(consumer(), partitions);
    let mut buffer = Buffer::default();
    assert!(poll(&mut desk, &mut buffer).records.is_empty());
    fill(&desk, &mut buffer, count);
    (desk, buffer)
}

fn fill(desk: &Desk, buffer: &mut Buffer, count: i64) {
    for fetch in buffer.fetches(&desk.member) {
        assert!(answer(buffer, &fetch, count));
    }
}

/// The records by the index of the partition.
fn taken(polled: &ConsumerRecords<i64>) -> Vec<(i32, &[i64])> {
    polled.records.iter().map(|(partition, records)| (partition.partition, &records[..])).collect()
}

fn fence(desk: &mut Desk) {
    desk.now += 3 * SECOND;
    let (id, _) = desk.take(|request| matches!(request, Request::ConsumerGroupHeartbeat(_)));
    let error_code = ErrorCode::FENCED_MEMBER_EPOCH;
    desk.respond(id, ConsumerGroupHeartbeatResponse { error_code, ..Default::default() });
    desk.now += SECOND;
}

// ---- Positions ----

#[test]
fn fetching_begins_at_the_committed_offset_and_goes_on_behind_what_has_come() {
    let mut desk = Desk::joined(consumer(), &[0, 1]);
    let mut buffer = Buffer::default();
    assert_eq!(fetches(&desk, &buffer), []);
    poll(&mut desk, &mut buffer);
    assert_eq!(fetches(&desk, &buffer), [(0, 10), (1, 10)]);

    // A batch may end with offsets that have no records.
    let first = fetch(&desk, &buffer, 0);
    assert!(buffer.fetched(&first, [10, 11], 15) && !buffer.is_empty());
    assert_eq!(fetches(&desk, &buffer), [(1, 10)], "records of the other one wait");
    let polled = poll(&mut desk, &mut buffer);
    assert_eq!(taken(&polled), [(0, &[10, 11][..])]);
    assert!(buffer.is_empty());
    assert_eq!(fetches(&desk, &buffer), [(0, 15), (1, 10)]);
}

#[test]
fn without_a_committed_offset_the_caller_says_where_to_begin() {
    let mut desk = Desk::new(consumer());
    desk.committed = -1;
    desk.join(&[0, 1]);
    desk.fetch_offsets();
    let mut buffer = Buffer::default();
    assert!(!buffer.seek(&partition(0), 5), "no poll has reported it");
    let changes = poll(&mut desk, &mut buffer).changes;
    assert!(changes.assigned.iter().all(|assigned| assigned.committed.is_none()));
    assert_eq!(fetches(&desk, &buffer), []);
    assert!(buffer.seek(&partition(1), 5) && !buffer.seek(&partition(2), 5));
    assert_eq!(fetches(&desk, &buffer), [(1, 5)]);
}

#[test]
fn a_seek_drops_what_waits_and_what_is_on_its_way() {
    let (desk, mut buffer) = full(&[0, 1], 3);
    assert!(buffer.seek(&partition(0), 40));
    assert_eq!(fetches(&desk, &buffer), [(0, 40)]);
    assert!(!buffer.seek(&partition(0), -1), "no offset");
    assert_eq!(fetches(&desk, &buffer), [(0, 40)]);

    // To the same offset too.
    for offset in [50, 50] {
        let before = fetch(&desk, &buffer, 0);
        buffer.seek(&partition(0), offset);
        assert!(!buffer.is_waiting_for(&before));
        assert!(!answer(&mut buffer, &before, 3));
        // Nor does it matter that the offset of before is out of range.
        assert!(!buffer.fetched(&before, [], 0));
        assert_eq!(fetches(&desk, &buffer), [(0, offset)]);
    }
}

#[test]
fn an_answer_without_records_moves_the_position() {
    let mut desk = Desk::joined(consumer(), &[0]);
    let mut buffer = Buffer::default();
    poll(&mut desk, &mut buffer);
    // Nothing is there yet; control records only; out of range.
    for next in [10, 12, 4] {
        let sent = fetch(&desk, &buffer, 0);
        assert!(buffer.fetched(&sent, [], next));
        assert_eq!(fetches(&desk, &buffer), [(0, next)]);
    }
}

#[test]
fn of_two_fetches_from_one_position_only_one_is_answered() {
    let mut desk = Desk::joined(consumer(), &[0]);
    let mut buffer = Buffer::default();
    poll(&mut desk, &mut buffer);
    let (one, two) = (fetch(&desk, &buffer, 0), fetch(&desk, &buffer, 0));
    assert!(answer(&mut buffer, &two, 2) && !answer(&mut buffer, &one, 3));
    assert_eq!(taken(&poll(&mut desk, &mut buffer)), [(0, &[10, 11][..])]);
    assert!(!answer(&mut buffer, &one, 3), "nor is it later");
}

// ---- On the way out ----

#[test]
fn from_the_announcement_on_nothing_of_a_partition_comes() {
    let (mut desk, mut buffer) = full(&[0, 1, 2], 3);
    desk.next_heartbeat(Some(&[0]));
    assert!(desk.to_be_revoked().is_empty(), "a poll announces");
    let polled = poll(&mut desk, &mut buffer);
    assert_eq!(polled.changes.to_be_revoked, [partition(1), partition(2)]);
    assert_eq!(taken(&polled), [(0, &[10, 11, 12][..])], "with the announcement too");
    assert!(buffer.is_empty());
    assert_eq!(fetches(&desk, &buffer), [(0, 13)]);
    assert!(!buffer.seek(&partition(1), 10));
}

#[test]
fn what_is_announced_while_a_fetch_is_under_way_is_dropped_when_it_comes() {
    let mut desk = Desk::joined(consumer(), &[0, 1]);
    let mut buffer = Buffer::default();
    poll(&mut desk, &mut buffer);
    let sent = buffer.fetches(&desk.member);
    desk.next_heartbeat(Some(&[0]));
    poll(&mut desk, &mut buffer);
    assert!(answer(&mut buffer, &sent[0], 2) && !answer(&mut buffer, &sent[1], 2));
    assert_eq!(taken(&poll(&mut desk, &mut buffer)), [(0, &[10, 11][..])]);
}

#[test]
fn held_partitions_give_nothing_and_the_others_go_on() {
    let (mut desk, mut buffer) = full(&[0, 1], 1);
    desk.next_heartbeat(Some(&[0]));
    poll(&mut desk, &mut buffer);
    assert!(desk.member.hold(&partition(1)));
    for offset in 11..16 {
        assert_eq!(fetches(&desk, &buffer), [(0, offset)]);
        fill(&desk, &mut buffer, 1);
        assert_eq!(taken(&poll(&mut desk, &mut buffer)), [(0, &[offset][..])]);
    }
    assert_eq!(desk.to_be_revoked(), [partition(1)]);
}

#[test]
fn in_an_eager_rebalance_nothing_comes_until_it_is_over() {
    let mut desk = Desk::joined(eager(), &[0, 1]);
    let mut buffer = Buffer::default();
    poll(&mut desk, &mut buffer);
    fill(&desk, &mut buffer, 3);
    desk.classic_heartbeat(ErrorCode::REBALANCE_IN_PROGRESS);
    assert!(poll(&mut desk, &mut buffer).records.is_empty());
    assert_eq!(fetches(&desk, &buffer), []);
    poll(&mut desk, &mut buffer);
    let (join, _) = desk.join_group();
    desk.answer_join(join);
    desk.answer_sync(&[0, 1]);
    desk.fetch_offsets();
    poll(&mut desk, &mut buffer);
    assert_eq!(fetches(&desk, &buffer), [(0, 10), (1, 10)], "from what is committed");
}

/// Nothing to drain, and nothing to wait for.
#[test]
fn what_is_revoked_before_a_record_of_it_came_is_given_up_by_the_next_poll() {
    let mut desk = Desk::joined(consumer(), &[0, 1]);
    let mut buffer = Buffer::default();
    poll(&mut desk, &mut buffer);
    let sent = fetch(&desk, &buffer, 1);
    desk.next_heartbeat(Some(&[0]));
    poll(&mut desk, &mut buffer);
    poll(&mut desk, &mut buffer);
    assert_eq!(owned(&desk.heartbeat(None)), Some(vec![0]), "a fetch under way holds nothing up");
    assert!(!answer(&mut buffer, &sent, 3));
}

#[test]
fn what_is_lost_is_dropped() {
    let (mut desk, mut buffer) = full(&[0, 1], 3);
    buffer.seek(&partition(1), 20);
    assert_eq!(fetches(&desk, &buffer), [(1, 20)]);
    fence(&mut desk);
    assert_eq!(fetches(&desk, &buffer), [], "even before the report");
    let polled = poll(&mut desk, &mut buffer);
    assert_eq!(polled.changes.lost, [partition(0), partition(1)]);
    assert!(polled.records.is_empty() && buffer.is_empty());
}

#[test]
fn nothing_comes_after_closing_or_unsubscribing() {
    for closes in [true, false] {
        let (mut desk, mut buffer) = full(&[0, 1], 3);
        buffer.seek(&partition(1), 20);
        assert_eq!(fetches(&desk, &buffer), [(1, 20)]);
        if closes {
            desk.member.close(SECOND, desk.now);
        } else {
            desk.member.unsubscribe(desk.now);
        }
        assert_eq!(fetches(&desk, &buffer), []);
        assert!(poll(&mut desk, &mut buffer).records.is_empty() && buffer.is_empty());
    }
}

// ---- Assigned again ----

/// The answer to a fetch of the first assignment comes in the second one, whose position is elsewhere.
#[test]
fn a_late_answer_of_an_earlier_assignment_is_dropped() {
    let given_up = |desk: &mut Desk, buffer: &mut Buffer| {
        desk.next_heartbeat(Some(&[0]));
        poll(desk, buffer);
        poll(desk, buffer);
        assert_eq!(owned(&desk.heartbeat(None)), Some(vec![0]));
        desk.next_heartbeat(Some(&[0, 1]));
    };
    let lost = |desk: &mut Desk, buffer: &mut Buffer| {
        fence(desk);
        assert_eq!(poll(desk, buffer).changes.lost.len(), 2);
        desk.heartbeat(Some(&[0, 1]));
    };
    for (moves, committed) in [(&given_up as &dyn Fn(&mut Desk, &mut Buffer), 10), (&lost, 10), (&lost, 30)] {
        let mut desk = Desk::joined(consumer(), &[0, 1]);
        let mut buffer = Buffer::default();
        poll(&mut desk, &mut buffer);
        let late = fetch(&desk, &buffer, 1);
        desk.committed = committed;
        moves(&mut desk, &mut buffer);
        desk.fetch_offsets();
        let changes = poll(&mut desk, &mut buffer).changes;
        assert!(changes.assigned.iter().any(|assigned| assigned.partition == partition(1)));

        assert!(!answer(&mut buffer, &late, 5), "even if the offset is the same");
        assert_eq!(fetch(&desk, &buffer, 1).offset, committed);
        fill(&desk, &mut buffer, 1);
        assert!(taken(&poll(&mut desk, &mut buffer)).contains(&(1, &[committed][..])));
    }
}

/// Polls without the buffer change nothing for it: the next one with it drops what has to be dropped.
#[test]
fn the_buffer_follows_whichever_poll() {
    let (mut desk, mut buffer) = full(&[0, 1], 3);
    desk.next_heartbeat(Some(&[0]));
    desk.poll();
    assert_eq!(fetches(&desk, &buffer), []);
    assert_eq!(taken(&desk.poll_records(&mut buffer, 1)), [(0, &[10][..])]);

    let (mut desk, mut buffer) = full(&[0, 1], 3);
    desk.next_heartbeat(Some(&[0]));
    desk.poll();
    desk.poll();
    desk.heartbeat(None);
    desk.committed = 30;
    desk.next_heartbeat(Some(&[0, 1]));
    desk.fetch_offsets();
    desk.poll();
    assert_eq!(taken(&poll(&mut desk, &mut buffer)), [(0, &[10, 11, 12][..])]);
    assert_eq!(fetches(&desk, &buffer), [(0, 13), (1, 30)]);
}

// ---- Turns ----

#[test]
fn records_are_taken_from_all_partitions_in_turn() {
    let (mut desk, mut buffer) = full(&[0, 1, 2], 5);
    let polled = desk.poll_records(&mut buffer, 7);
    assert_eq!(taken(&polled), [(0, &[10, 11, 12][..]), (1, &[10, 11]), (2, &[10, 11])]);
    // It goes on where it stopped.
    assert_eq!(taken(&desk.poll_records(&mut buffer, 1)), [(1, &[12][..])]);
    let polled = desk.poll_records(&mut buffer, 3);
    assert_eq!(taken(&polled), [(0, &[13][..]), (1, &[13]), (2, &[12])]);
    // Who has nothing leaves its turns to others.
    let polled = poll(&mut desk, &mut buffer);
    assert_eq!(taken(&polled), [(0, &[14][..]), (1, &[14]), (2, &[13, 14])]);
    assert!(buffer.is_empty() && poll(&mut desk, &mut buffer).records.is_empty());
}

#[test]
fn no_partition_starves_another_one() {
    for max in 1..5 {
        let (mut desk, mut buffer) = full(&[0, 1, 2], 1000);
        let mut counts = [0; 3];
        assert!(buffer.seek(&partition(1), 0));
        for polls in 1..100 {
            // Whenever they are empty, many records of the first one come and one of the second.
            for fetch in buffer.fetches(&desk.member) {
                let count = if fetch.partition == partition(0) { 1000 } else { 1 };
                answer(&mut buffer, &fetch, count);
            }
            let polled = desk.poll_records(&mut buffer, max);
            for (index, records) in taken(&polled) {
                counts[usize::try_from(index).expect("an index")] += records.len();
            }
            assert_eq!(counts.iter().sum::<usize>(), max * polls, "{max} are there");
        }
        // A third for everyone, unless one of them has less.
        let share = (99 * max / 3).min(99) - 1;
        assert!(counts.iter().all(|&count| count >= share), "at most {max} in a poll: {counts:?}");
    }
}

#[test]
fn a_poll_for_no_records_changes_nothing_but_partitions() {
    let mut desk = Desk::joined(cooperative(), &[0, 1]);
    let mut buffer = Buffer::default();
    poll(&mut desk, &mut buffer);
    fill(&desk, &mut buffer, 2);
    desk.classic_heartbeat(ErrorCode::REBALANCE_IN_PROGRESS);
    let (join, _) = desk.join_group();
    desk.answer_join(join);
    desk.answer_sync(&[0]);
    let polled = desk.poll_records(&mut buffer, 0);
    assert_eq!(polled.changes.to_be_revoked, [partition(1)]);
    assert!(polled.records.is_empty() && !buffer.is_empty());
    assert_eq!(taken(&poll(&mut desk, &mut buffer)), [(0, &[10, 11][..])]);
}
