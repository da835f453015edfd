"""What a memory plan is made for: a graph on one device, or one rank's program."""

from graphwright.memory.problems.graph import COPY, GraphProblem, problem_of
from graphwright.memory.problems.program import Piece, ProgramProblem, problem_of_program
