// The structure of a graph under change: what Program says of it, with rows that can be edited.
// The engine reads a Program and an Editable by the same names.
#pragma once

#include "replay.hpp"

namespace paceline {

class Rows {  // as Csr; rows that grow are moved to the end
  public:
    explicit Rows(const Csr& rows);

    std::span<const Op> row(std::size_t i) const {
        return {item.data() + spans_[i].from, spans_[i].size};
    }
    std::uint32_t begin(std::size_t i) const { return spans_[i].from; }
    std::uint32_t end(std::size_t i) const { return spans_[i].from + spans_[i].size; }
    std::size_t rows() const { return spans_.size(); }
    bool has(std::size_t i, Op op) const;
    void insert(std::size_t i, std::size_t at, Op op);
    void append(std::size_t i, Op op) { insert(i, spans_[i].size, op); }
    void erase(std::size_t i, Op op);
    void add_row();
    void drop_row();
    std::size_t bytes() const { return spans_.size() * sizeof(Span) + item.size() * 4; }

    std::vector<Op> item;

  private:
    void close_gaps();

    struct Span {
        std::uint32_t from, size;
    };
    std::vector<Span> spans_;
    std::size_t used_;
};

struct Editable {
    explicit Editable(const Program&);

    Op add(Op lane, Op anchor);  // an op without links, behind `anchor` in id order; not there yet
    void drop();                 // the op added last
    void admit(Op op);           // it takes its place on its lane and among its instance
    void withdraw(Op op);
    void link(Op before, Op op);
    void unlink(Op before, Op op);

    std::uint32_t key_of(Op op) const {  // its place in id order
        return static_cast<std::uint32_t>(key.empty() ? op : key[op]);
    }
    Op op_of(std::uint32_t at) const { return key.empty() ? static_cast<Op>(at) : by_key[at]; }
    std::size_t place(Op op) const;  // where in its lane's row it stands, or would
    std::size_t bytes() const;

    Op ops, first_added, there;  // ids in use; ids of the graph; ops that are not gone
    Rows succs, preds, members, queue, drains, launches;
    std::vector<Op> lane_of, instance_of, waits_for_launch;
    std::vector<std::uint8_t> discipline, drained_lane, gone;
    std::vector<Op> anchors;      // of ops that were added
    std::vector<Op> key, by_key;  // empty while no op was added

  private:
    void number();
};

}  // namespace paceline
