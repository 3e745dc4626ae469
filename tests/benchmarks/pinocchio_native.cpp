// pinocchio's inverse and forward dynamics, and derivatives of the latter, called from C++, timed on request.
//
//     pinocchio_native MODEL STATES
//
// MODEL: gravity (3); number of joints; per joint its kind, parent, R (9, row by row), p (3), axis (3), mass, centre of
// mass (3), inertia (xx xy yy xz yz zz). STATES: their number; q, v, a of each. Prints the efforts and then the
// accelerations (with a taken as efforts) of every state, and then their derivatives by q, v and the efforts, each row by
// row; then, for each line "rnea CALLS", "aba CALLS" or "derivatives CALLS" on standard input, the microseconds of
// processor time per call, going round the states.

#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <time.h>

#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/rnea.hpp>
#include <pinocchio/multibody.hpp>

namespace pin = pinocchio;
using Vector = Eigen::VectorXd;

Vector read(std::istream& in, int size) {
  Vector values(size);
  for (int i = 0; i < size; ++i) in >> values[i];
  return values;
}

pin::JointModel joint_of(const std::string& kind, const Eigen::Vector3d& axis) {
  if (kind == "JointModelRX") return pin::JointModelRX();
  if (kind == "JointModelRY") return pin::JointModelRY();
  if (kind == "JointModelRZ") return pin::JointModelRZ();
  if (kind == "JointModelRUBX") return pin::JointModelRUBX();
  if (kind == "JointModelRUBY") return pin::JointModelRUBY();
  if (kind == "JointModelRUBZ") return pin::JointModelRUBZ();
  if (kind == "JointModelPX") return pin::JointModelPX();
  if (kind == "JointModelPY") return pin::JointModelPY();
  if (kind == "JointModelPZ") return pin::JointModelPZ();
  if (kind == "JointModelRevoluteUnaligned") return pin::JointModelRevoluteUnaligned(axis);
  if (kind == "JointModelRevoluteUnboundedUnaligned") return pin::JointModelRevoluteUnboundedUnaligned(axis);
  if (kind == "JointModelPrismaticUnaligned") return pin::JointModelPrismaticUnaligned(axis);
  std::cerr << "no joint of kind " << kind << "\n";
  std::exit(2);
}

pin::Model model_from(const char* path) {
  std::ifstream in(path);
  pin::Model model;
  model.gravity.linear() = read(in, 3);
  int joints = 0;
  in >> joints;
  for (int i = 0; i < joints; ++i) {
    std::string kind;
    int parent = 0;
    in >> kind >> parent;
    const Vector R = read(in, 9), p = read(in, 3), axis = read(in, 3), body = read(in, 10);
    const pin::SE3 placement(Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(R.data()), p);
    const auto index = model.addJoint(parent, joint_of(kind, axis), placement, "joint_" + std::to_string(i));
    const pin::Symmetric3 inertia(Vector(body.tail(6)));
    model.appendBodyToJoint(index, pin::Inertia(body[0], body.segment<3>(1), inertia), pin::SE3::Identity());
  }
  return model;
}

// Microseconds that this thread has run.
double processor_time() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

template <typename Call>
double microseconds(long calls, std::size_t states, Call call) {
  const double start = processor_time();
  for (long i = 0; i < calls; ++i) call(i % states);
  return (processor_time() - start) / calls;
}

int main(int, char** arguments) {
  const pin::Model model = model_from(arguments[1]);
  pin::Data data(model);
  std::ifstream in(arguments[2]);
  int count = 0;
  in >> count;
  std::vector<Vector> q, v, a;
  for (int i = 0; i < count; ++i) {
    q.push_back(read(in, model.nq));
    v.push_back(read(in, model.nv));
    a.push_back(read(in, model.nv));
  }
  const auto rnea = [&](std::size_t i) -> const auto& { return pin::rnea(model, data, q[i], v[i], a[i]); };
  const auto aba = [&](std::size_t i) -> const auto& {
    return pin::aba(model, data, q[i], v[i], a[i]);
  };
  const auto derivatives = [&](std::size_t i) { pin::computeABADerivatives(model, data, q[i], v[i], a[i]); };
  const auto print = [](const Vector& values) {
    for (const double value : values) std::printf("%.17g ", value);
    std::printf("\n");
  };
  for (int i = 0; i < count; ++i) print(rnea(i));
  for (int i = 0; i < count; ++i) print(aba(i));
  const auto print_rows = [&](const Eigen::MatrixXd& values) {
    for (int i = 0; i < values.rows(); ++i) print(values.row(i));
  };
  for (int i = 0; i < count; ++i) {
    derivatives(i);
    for (const Eigen::MatrixXd& values : {Eigen::MatrixXd(data.ddq_dq), Eigen::MatrixXd(data.ddq_dv), Eigen::MatrixXd(data.Minv)})
      print_rows(values);
  }
  std::fflush(stdout);
  std::string name;
  long calls = 0;
  while (std::cin >> name >> calls) {
    const double time = name == "rnea"  ? microseconds(calls, q.size(), rnea)
                        : name == "aba" ? microseconds(calls, q.size(), aba)
                                        : microseconds(calls, q.size(), derivatives);
    std::printf("%.17g\n", time);
    std::fflush(stdout);
  }
}
