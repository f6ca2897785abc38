"""clients_c_test.py: libtarry: the conformance stories that all client libraries share."""
import conformance
import harness

One, Two = conformance.cases(lambda case: [harness.find_program("conformance_driver")])

if __name__ == "__main__":
    harness.main()
