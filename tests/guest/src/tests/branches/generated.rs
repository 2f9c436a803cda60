// SPDX-License-Identifier: GPL-2.0
//! Programs of blocks of instructions, and the list of the branches that they take.

use anyhow::Result;

use crate::workload::{self, Branch, BranchKind, Workload};

/// The number of a block, whose instructions follow each other in memory. Each begins a function or is one
/// that branches lead to.
pub type Block = usize;

/// The instructions of the programs. RSI holds random bits, RDI the rounds that are left, and R8 and R9 where
/// an indirect branch may lead.
#[derive(Clone, Copy)]
pub enum Instruction {
    Nop(usize),
    /// ROL RSI, 1: carry is the bit that has come round.
    Rotate,
    /// TEST SIL: zero is whether the bits are. Some CPUs run it and the branch after it as one.
    Test(u8),
    /// IMUL RSI.
    Multiply(i32),
    /// ADD RSI.
    Add(i32),
    /// DEC RDI: zero is whether no round is left.
    CountDown,
    /// LEA R8, or LEA R9.
    Load(u8, Block),
    /// CMOVC R8, R9.
    Choose,
    /// By a condition code of carry or zero.
    If(u8, Block),
    Jump(Block),
    /// JMP R8.
    IndirectJump,
    Call(Block),
    /// CALL R8.
    IndirectCall,
    /// RET, or RET 0.
    Return(bool),
}
use Instruction::*;

/// Condition codes. Bit 0 negates.
pub const CARRY: u8 = 2;
pub const ZERO: u8 = 4;

/// The NOPs: of one, two, three, five and nine bytes.
pub const NOPS: [&[u8]; 5] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];

impl Instruction {
    fn block(self) -> Option<Block> {
        match self {
            Load(_, block) | If(_, block) | Jump(block) | Call(block) => Some(block),
            _ => None,
        }
    }

    /// Whether the distance of its block may have one byte.
    fn can_be_short(self) -> bool {
        matches!(self, If(..) | Jump(_))
    }

    /// The machine code, for a block at this distance from the instruction.
    fn code(self, is_short: bool, distance: i64) -> Vec<u8> {
        let mut code = match (self, is_short) {
            (Nop(kind), _) => NOPS[kind].to_vec(),
            (Rotate, _) => vec![0x48, 0xd1, 0xc6],
            (Test(bits), _) => vec![0x40, 0xf6, 0xc6, bits],
            (Multiply(by), _) => [&[0x48, 0x69, 0xf6][..], &by.to_le_bytes()].concat(),
            (Add(what), _) => [&[0x48, 0x81, 0xc6][..], &what.to_le_bytes()].concat(),
            (CountDown, _) => vec![0x48, 0xff, 0xcf],
            (Load(register, _), _) => vec![0x4c, 0x8d, 0x05 | (register << 3)],
            (Choose, _) => vec![0x4d, 0x0f, 0x42, 0xc1],
            (If(condition, _), true) => vec![0x70 | condition],
            (If(condition, _), false) => vec![0x0f, 0x80 | condition],
            (Jump(_), true) => vec![0xeb],
            (Jump(_), false) => vec![0xe9],
            (IndirectJump, _) => vec![0x41, 0xff, 0xe0],
            (Call(_), _) => vec![0xe8],
            (IndirectCall, _) => vec![0x41, 0xff, 0xd0],
            (Return(false), _) => vec![0xc3],
            (Return(true), _) => vec![0xc2, 0, 0],
        };
        if self.block().is_some() {
            let size = if is_short { 1 } else { 4 };
            let from_end = distance - (code.len() + size) as i64;
            code.extend(&from_end.to_le_bytes()[..size]);
        }
        code
    }
}

/// A program in memory.
pub struct Program {
    code: Vec<u8>,
    /// The instructions, and where they are in the code.
    instructions: Vec<(Instruction, u64)>,
    /// The first instruction of each block.
    blocks: Vec<usize>,
}

/// What a program executes.
pub struct Run {
    pub workload: Workload,
    /// The branches that are taken, and the number of the instruction in the measured run.
    pub taken: Vec<(u64, Branch)>,
}

impl Program {
    /// The code of the blocks, in this order of block numbers. It begins with block 0.
    pub fn assemble(blocks: &[Vec<Instruction>], order: &[Block]) -> Self {
        let mut program = Program {
            code: Vec::new(),
            instructions: Vec::new(),
            blocks: vec![0; blocks.len()],
        };
        for block in order {
            program.blocks[*block] = program.instructions.len();
            program
                .instructions
                .extend(blocks[*block].iter().map(|it| (*it, 0)));
        }
        let mut is_short = vec![false; program.instructions.len()];
        program.place(&is_short);
        // Shorter code only brings blocks nearer.
        for (i, is_short) in is_short.iter_mut().enumerate() {
            let near = program.distance(i).abs() < 120;
            *is_short = near && program.instructions[i].0.can_be_short();
        }
        program.place(&is_short);
        for (i, is_short) in is_short.into_iter().enumerate() {
            let (instruction, _) = program.instructions[i];
            let code = instruction.code(is_short, program.distance(i));
            program.code.extend(code);
        }
        program
    }

    fn place(&mut self, is_short: &[bool]) {
        let mut end = 0;
        for ((instruction, at), is_short) in self.instructions.iter_mut().zip(is_short) {
            *at = end;
            end += instruction.code(*is_short, 0).len() as u64;
        }
    }

    /// How far the block of an instruction is from it.
    fn distance(&self, i: usize) -> i64 {
        let (instruction, at) = self.instructions[i];
        let to = instruction
            .block()
            .map_or(at, |block| self.instructions[self.blocks[block]].1);
        to as i64 - at as i64
    }

    /// What the program executes in as many rounds as take `wanted` instructions, with these bits in RSI.
    pub fn run(&self, wanted: u64, bits: u64) -> Result<Run> {
        let mut state = State {
            rsi: bits,
            ..State::default()
        };
        let mut taken = Vec::new();
        let mut next = Some(0);
        while let Some(i) = next {
            state.executed += 1;
            next = Some(i + 1);
            if let Some((kind, to)) = state.step(self, i, wanted) {
                next = to;
                let offset = |i: usize| self.instructions[i].1;
                let branch = Branch {
                    kind,
                    from: offset(i),
                    to: to.map_or(0, offset),
                };
                taken.push((state.executed, branch));
            }
        }
        let State {
            rounds,
            executed,
            branches,
            ..
        } = state;
        let args = (rounds, bits);
        // SAFETY: the interpreter has just come to the end of the code with these arguments. Its
        // instructions are independent of their address, access only the return addresses, and change no
        // register but those that a function may.
        let workload = unsafe { workload::generated(&self.code, args, executed, branches) };
        let workload = workload?;
        let base = workload.address();
        let call = workload::measured_call(base);
        for (number, branch) in &mut taken {
            *number += call.0;
            branch.from += base;
            branch.to += base;
        }
        if let Some((_, end)) = taken.last_mut() {
            end.to = workload::measured_call_return();
        }
        taken.insert(0, call);
        Ok(Run { workload, taken })
    }
}

/// The state of a program that runs.
#[derive(Default)]
struct State {
    rsi: u64,
    /// R8 and R9.
    registers: [Block; 2],
    /// Carry or zero, whichever the last instruction to set one has set.
    flag: bool,
    /// Where the calls return to.
    calls: Vec<usize>,
    rounds: u64,
    executed: u64,
    branches: u64,
}

impl State {
    /// Executes instruction `i`. Of a branch that is taken, returns the kind and where it leads: the end of
    /// the program is `None`.
    fn step(
        &mut self,
        program: &Program,
        i: usize,
        wanted: u64,
    ) -> Option<(BranchKind, Option<usize>)> {
        let (instruction, _) = program.instructions[i];
        let start = |block: Block| Some(program.blocks[block]);
        match instruction {
            Nop(_) => {}
            Rotate => {
                self.rsi = self.rsi.rotate_left(1);
                self.flag = self.rsi & 1 != 0;
            }
            Test(bits) => self.flag = self.rsi & u64::from(bits) == 0,
            Multiply(by) => self.rsi = self.rsi.wrapping_mul(by as u64),
            Add(what) => self.rsi = self.rsi.wrapping_add(what as u64),
            CountDown => {
                self.rounds += 1;
                self.flag = self.executed >= wanted;
            }
            Load(register, block) => self.registers[usize::from(register)] = block,
            Choose if self.flag => self.registers[0] = self.registers[1],
            Choose => {}
            _ => {
                self.branches += 1;
                return match instruction {
                    If(code, block) if self.flag == (code & 1 == 0) => {
                        Some((BranchKind::Conditional, start(block)))
                    }
                    Jump(block) => Some((BranchKind::Jump, start(block))),
                    IndirectJump => Some((BranchKind::IndirectJump, start(self.registers[0]))),
                    Return(_) => Some((BranchKind::Return, self.calls.pop())),
                    Call(block) => {
                        self.calls.push(i + 1);
                        Some((BranchKind::Call, start(block)))
                    }
                    IndirectCall => {
                        self.calls.push(i + 1);
                        Some((BranchKind::IndirectCall, start(self.registers[0])))
                    }
                    _ => None,
                };
            }
        }
        None
    }
}
